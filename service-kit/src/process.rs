//! The lifecycle of a process: run until asked to stop, drain, exit with a code.

use crate::crash_point;
use crate::observability;
use crate::server::DRAIN_DEADLINE;
use crate::settings::ProcessSettings;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Time for draining in addition to the servers' deadline.
const GRACE: Duration = Duration::from_millis(500);

/// Time for blocked threads to finish at exit.
const BLOCKED_GRACE: Duration = Duration::from_millis(100);

/// Runs a whole process. A thread that still blocks at the end, such as a commit that waits for a broker, doesn't delay the exit.
pub fn main(all: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("failed to start the async runtime");
    let code = runtime.block_on(all);
    runtime.shutdown_timeout(BLOCKED_GRACE);
    code
}

/// A process to run, boxed so that each service's crate compiles its own future, not the program that starts all of them.
pub type Process = Pin<Box<dyn Future<Output = ExitCode>>>;

/// Runs `work` until it is asked to stop, with logs and metrics; see [`run`].
pub async fn serve<F, Fut>(settings: &ProcessSettings, work: F) -> ExitCode
where
    F: FnOnce(CancellationToken) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    if let Err(error) = observability::start(settings) {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    run(work).await
}

/// Runs `work` with a token that the first SIGTERM or SIGINT cancels. A second signal or a drain timeout ends the process immediately.
/// Returns a failure if the work ends early or fails.
pub async fn run<F, Fut>(work: F) -> ExitCode
where
    F: FnOnce(CancellationToken) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    crash_point::announce();
    let open_files = raise_open_files();
    tracing::debug!(open_files, "set the limit on open files and connections");
    let stop = CancellationToken::new();
    let work = work(stop.clone());
    tokio::pin!(work);
    tokio::select! {
        ended = &mut work => return report(ended, false),
        () = signal() => tracing::info!("received a stop signal, draining"),
    }
    stop.cancel();
    tokio::select! {
        ended = &mut work => report(ended, true),
        () = signal() => { tracing::warn!("received a second stop signal, exiting immediately"); ExitCode::FAILURE }
        () = tokio::time::sleep(DRAIN_DEADLINE + GRACE) => { tracing::error!("draining timed out, exiting"); ExitCode::FAILURE }
    }
}

/// Raises the limit on open files to the hard limit and returns it. The usual 1,024 exists for programs that use `select`; here, a few slow
/// callers could exhaust it.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // If the system rejects that (macOS without a hard limit), the old limit stays.
    let held = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    held.unwrap_or(u64::MAX)
}

/// Runs work that ends on its own, such as a migration.
pub async fn run_once(work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    match work.await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn report(ended: anyhow::Result<()>, was_asked: bool) -> ExitCode {
    match ended {
        Ok(()) if was_asked => ExitCode::SUCCESS,
        Ok(()) => {
            tracing::error!("stopped unexpectedly");
            ExitCode::FAILURE
        }
        Err(error) => {
            // Print it as the last line, without log format, for people who start a process by hand.
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("failed to install the SIGTERM handler");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_a_blocked_thread_does_not_delay_the_exit() {
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = std::sync::mpsc::channel();
        // Dropped only after the end, so a `main` that waits for the thread would never return.
        let code = main(async move {
            tokio::task::spawn_blocking(move || {
                let _ = begun.send(());
                let _ = blocked.recv();
            });
            tokio::task::spawn_blocking(move || has_begun.recv()).await.unwrap().unwrap();
            ExitCode::SUCCESS
        });
        drop(release);
        assert_eq!(code, ExitCode::SUCCESS);
    }
}
