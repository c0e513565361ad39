//! The worker as a process of its own, and what operators do with the same binary.
//!
//! Must stay a table of contents: everything it does is in the library.

use mimalloc::MiMalloc;
use service_kit::clock::Clock;
use service_kit::settings::ProcessSettings;
use service_kit::{health, process, settings, telemetry};
use std::process::ExitCode;
use stream_workers::{Cli, Command, deliver, prepare, rebuild, replay, run};
use tokio_util::sync::CancellationToken;

/// Rows are many small strings; the gateway measured a fifth of its time in the system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    process::main(start())
}

async fn start() -> ExitCode {
    let Cli { command, process, settings } = settings::parse();
    match command.unwrap_or(Command::Run) {
        Command::Run => until_stopped(&process, |stop| run(&process, &settings, stop)).await,
        Command::Deliver(own) => until_stopped(&process, |stop| deliver::run(&process, &own, stop)).await,
        Command::Health => health::report_own(process.listen).await,
        Command::Prepare => process::once(prepare(&settings)).await,
        Command::Replay(options) => errand(&process, replay(&settings, &options, Clock::System)).await,
        Command::Rebuild(options) => errand(&process, rebuild(&settings, &options, Clock::System)).await,
        Command::Rejected(what) => errand(&process, what.run(&settings)).await,
    }
}

/// A mode that ends by itself; it may have to say that it waits for a store.
async fn errand(settings: &ProcessSettings, work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    process::once(async {
        telemetry::start_logs(settings)?;
        work.await
    })
    .await
}

/// A mode that works, with logs and metrics, until it is asked to stop.
async fn until_stopped<F, Fut>(settings: &ProcessSettings, work: F) -> ExitCode
where
    F: FnOnce(CancellationToken) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    if let Err(error) = telemetry::start(settings) {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    process::run(work).await
}
