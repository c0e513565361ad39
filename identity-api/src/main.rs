//! The identity service as a process of its own.
//!
//! Must stay a table of contents: everything it does is in the library.

use identity_api::{Cli, Command, migrate, run};
use service_kit::clock::Clock;
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
    if let Some(Command::Migrate) = cli.command {
        return process::once(async { migrate(&cli.settings.for_errands(cli.process.profile)?).await }).await;
    }
    if let Some(Command::Admin(admin)) = cli.command {
        return process::once(async { admin.run(&cli.settings.for_admin(cli.process.profile).await?, Clock::System).await })
            .await;
    }
    if let Err(error) = telemetry::start(&cli.process) {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    process::run(|stop| run(cli, Clock::System, stop)).await
}
