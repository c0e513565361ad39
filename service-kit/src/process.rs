//! The life of a process: run until asked to stop, drain, and leave with an exit code that says why.

use crate::crash_point;
use crate::server::DRAIN_DEADLINE;
use crate::settings::ProcessSettings;
use crate::telemetry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What draining may take beyond the servers' own deadline before the process gives up.
const GRACE: Duration = Duration::from_millis(500);

/// What is still blocked in a thread gets so long at the end; nothing waits for it.
const BLOCKED_GRACE: Duration = Duration::from_millis(100);

/// Runs all of a process. A call that still blocks a thread at the end, such as a commit that waits for a broker, does
/// not hold its exit up.
pub fn main(all: impl Future<Output = ExitCode>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("the system gives a process threads");
    let code = runtime.block_on(all);
    runtime.shutdown_timeout(BLOCKED_GRACE);
    code
}

/// A process that has been asked for, until its end. Boxed: code of its futures is generated with its service, and the crates of
/// services compile side by side, which the program that starts them all comes after.
pub type Process = Pin<Box<dyn Future<Output = ExitCode>>>;

/// A process that works until it is asked to stop, with logs and metrics: [`run`] once both are there.
pub async fn serve<F, Fut>(settings: &ProcessSettings, work: F) -> ExitCode
where
    F: FnOnce(CancellationToken) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    if let Err(error) = telemetry::start(settings) {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    run(work).await
}

/// Runs `work` with a token that the first SIGTERM or SIGINT cancels. A second signal, or a drain that takes too
/// long, ends the process at once. Work that ends unasked, or with an error, is a failure.
pub async fn run<F, Fut>(work: F) -> ExitCode
where
    F: FnOnce(CancellationToken) -> Fut,
    Fut: Future<Output = anyhow::Result<()>>,
{
    crash_point::announce();
    let open_files = raise_open_files();
    tracing::debug!(open_files, "may keep so many files and connections open");
    let stop = CancellationToken::new();
    let work = work(stop.clone());
    tokio::pin!(work);
    tokio::select! {
        ended = &mut work => return report(ended, false),
        () = signal() => tracing::info!("asked to stop; draining"),
    }
    stop.cancel();
    tokio::select! {
        ended = &mut work => report(ended, true),
        () = signal() => { tracing::warn!("asked to stop twice; leaving at once"); ExitCode::FAILURE }
        () = tokio::time::sleep(DRAIN_DEADLINE + GRACE) => { tracing::error!("draining took too long; leaving"); ExitCode::FAILURE }
    }
}

/// Takes as many open files as the system lets this process have, and says how many those are. The usual 1,024 are a
/// courtesy to programs that use `select`; here a few slow callers could hold them all.
pub fn raise_open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Where the system refuses (macOS, when there is no hard limit), the old one goes on.
    let held = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    held.unwrap_or(u64::MAX)
}

/// Runs work that ends by itself, such as a migration.
pub async fn once(work: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
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
            tracing::error!("stopped without being asked to");
            ExitCode::FAILURE
        }
        Err(error) => {
            // Said once, as the plain last line: who starts a process by hand looks there.
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).expect("a signal handler can be installed once the runtime is up");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c12_a_call_that_blocks_a_thread_does_not_hold_the_exit_up() {
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        let (begun, has_begun) = std::sync::mpsc::channel();
        // released only after the end: an end that waits for it never comes
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
