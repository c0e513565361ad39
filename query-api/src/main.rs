//! The reads as a process of their own.
//!
//! Must stay a table of contents: everything it does is in the library.

use query_api::{Cli, Command, run};
use service_kit::{health, process, settings, telemetry};
use std::process::ExitCode;

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
    process::run(|stop| run(cli, stop)).await
}
