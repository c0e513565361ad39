//! The load generator's program: `cargo load -- run …`, `cargo load -- bench`.

use clap::Parser as _;
use loadgen::options::Cli;
use loadgen::{Verdict, run};
use std::process::ExitCode;
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    // Accept both `cargo load -- run` and `cargo load run`.
    let arguments = std::env::args_os().enumerate().filter(|(place, argument)| *place != 1 || argument != "--");
    let cli = Cli::parse_from(arguments.map(|(_, argument)| argument));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(cli.threads()).enable_all().build();
    let verdict = runtime.map_err(anyhow::Error::from).and_then(|runtime| {
        let stop = CancellationToken::new();
        runtime.spawn(stop_on_signal(stop.clone()));
        // Run on a worker thread, because the blocked main thread isn't one of the configured threads.
        runtime.block_on(async move { tokio::spawn(async move { run(&cli, stop).await }).await? })
    });
    match verdict {
        Ok(Verdict::Clean) => ExitCode::SUCCESS,
        Ok(Verdict::Broken) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::from(2)
        }
    }
}

async fn stop_on_signal(stop: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminate) = signal(SignalKind::terminate()) else { return };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    eprintln!("stopping; sent events are still checked");
    stop.cancel();
}
