//! The console as a process of its own.
//!
//! Must stay a table of contents: everything it does is in the library.

use service_kit::clock::Clock;
use service_kit::{health, process, settings, telemetry};
use std::process::ExitCode;
use web_console::{Cli, Command, run};

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
