//! The worker as a process of its own, and what operators do with the same binary.
//!
//! Must stay a table of contents: everything it does is in the library.

use mimalloc::MiMalloc;
use service_kit::clock::Clock;
use service_kit::settings::ProcessSettings;
use service_kit::{health, process, settings, telemetry};
use std::process::ExitCode;
use stream_workers::{Cli, Command, deliver, prepare, print_settled, rebuild, replay, run};
use tokio_util::sync::CancellationToken;

/// Rows are many small strings; the gateway measured a fifth of its time in the system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    process::main(start())
}

async fn start() -> ExitCode {
    let Cli { command, process, settings } = settings::parse();
    let command = command.unwrap_or(Command::Run);
    // All but these two need the log and the stores.
    let settings = match &command {
        Command::Deliver(own) => return until_stopped(&process, |stop| deliver::run(&process, own, stop)).await,
        Command::Health => return health::report_own(process.listen).await,
        _ => settings.or_refuse(),
    };
    let settings = || settings.under(process.profile);
    match command {
        Command::Prepare => process::once(async { prepare(&settings()?).await }).await,
        Command::Replay(options) => errand(&process, async { replay(&settings()?, &options, Clock::System).await }).await,
        Command::Rebuild(options) => errand(&process, async { rebuild(&settings()?, &options, Clock::System).await }).await,
        Command::Settled => errand(&process, async { print_settled(&settings()?).await }).await,
        Command::Rejected(what) => errand(&process, async { what.run(&settings()?).await }).await,
        _ => until_stopped(&process, |stop| async { run(&process, &settings()?, stop).await }).await,
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
