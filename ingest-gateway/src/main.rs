//! The gateway as a process of its own.
//!
//! Must stay a table of contents: everything it does is in the library.

use ingest_gateway::{Cli, Command, run};
use mimalloc::MiMalloc;
use service_kit::clock::Clock;
use service_kit::{health, process, settings, telemetry};
use std::process::ExitCode;

/// Small short-lived pieces of JSON are most of what a request costs; the system's allocator took a fifth of it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    process::main(start())
}

async fn start() -> ExitCode {
    let cli: Cli = settings::parse();
    if let Some(Command::Health) = cli.command {
        return health::report_own(cli.process.listen).await;
    }
    if let Err(error) = telemetry::start(&cli.process) {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    process::run(|stop| run(cli, Clock::System, stop)).await
}
