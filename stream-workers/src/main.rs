//! The worker as a process of its own.
//!
//! Must stay a table of contents: everything it does is in the library.

use mimalloc::MiMalloc;
use service_kit::{health, process, settings, telemetry};
use std::process::ExitCode;
use stream_workers::{Cli, Command, prepare, run};

/// Rows are many small strings; the gateway measured a fifth of its time in the system's allocator.
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
    if let Some(Command::Prepare) = cli.command {
        return process::once(prepare(&cli.settings)).await;
    }
    if let Err(error) = telemetry::start(&cli.process) {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    process::run(|stop| run(cli, stop)).await
}
