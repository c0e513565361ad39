//! A service process that can be killed, paused, stopped and restarted.

use crate::drive::lock;
use crate::test_bed::{LaunchConfig, ProcessSlot, Running, tail};
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};

const LOOK_EVERY: Duration = Duration::from_millis(50);
const RESTART_PAUSE: Duration = Duration::from_millis(500);
/// Maximum time to stop after SIGTERM (C12).
pub(super) const STOP_LIMIT: Duration = Duration::from_secs(10);
/// Time after which a stopping process is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
const READY_PATIENCE: Duration = Duration::from_secs(90);
/// Settings named in the error if a process can't start because a store is unavailable.
const STORE_SETTINGS: [&str; 3] = ["KAFKA_BROKERS", "CLICKHOUSE_URL", "DATABASE_URL"];

#[derive(Debug)]
pub(super) struct ServiceProcess {
    pub(super) slot: ProcessSlot,
    launch: Arc<LaunchConfig>,
    life: tokio::sync::Mutex<ProcessState>,
    ends: Mutex<EndCounts>,
}

#[derive(Debug, Default)]
struct ProcessState {
    running: Option<Running>,
    /// Whether a fault controls the process, so that the supervisor must not start it.
    is_controlled: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct EndCounts {
    pub(super) killed: u64,
    pub(super) terminated: u64,
    pub(super) crashed: u64,
    /// Number of failed starts while a store was unavailable.
    pub(super) refused: u64,
    pub(super) longest_stop: Duration,
    /// Unexpected events.
    pub(super) wrong: Vec<String>,
}

impl ServiceProcess {
    pub(super) fn new(slot: ProcessSlot, launch: &Arc<LaunchConfig>) -> Arc<Self> {
        Arc::new(Self { slot, launch: Arc::clone(launch), life: tokio::sync::Mutex::default(), ends: Mutex::default() })
    }

    pub(super) async fn open(&self) -> anyhow::Result<()> {
        let mut running = self.launch.spawn(&self.slot, &[])?;
        running.until_ready().await?;
        self.life.lock().await.running = Some(running);
        Ok(())
    }

    pub(super) fn ends(&self) -> EndCounts {
        lock(&self.ends).clone()
    }

    /// Restarts the process whenever it ends, unless a fault controls it.
    pub(super) async fn supervise(self: Arc<Self>) {
        loop {
            sleep(LOOK_EVERY).await;
            let mut life = self.life.lock().await;
            if life.is_controlled {
                continue;
            }
            match life.running.as_mut().map(Running::ended) {
                Some(Ok(None)) => {}
                Some(Ok(Some(status))) => {
                    life.running = None;
                    drop(life);
                    self.ended_by_itself(status);
                    sleep(RESTART_PAUSE).await;
                }
                Some(Err(error)) => lock(&self.ends).wrong.push(format!("{}: waiting failed: {error}", self.slot.name)),
                None => self.spawn(&mut life, &[]),
            }
        }
    }

    fn spawn(&self, life: &mut ProcessState, besides: &[(&str, String)]) {
        match self.launch.spawn(&self.slot, besides) {
            Ok(running) => life.running = Some(running),
            Err(error) => lock(&self.ends).wrong.push(format!("{}: {error:#}", self.slot.name)),
        }
    }

    fn ended_by_itself(&self, status: ExitStatus) {
        let said = tail(&self.slot.log(&self.launch.folder));
        // The error is a plain line that may be followed by JSON log lines.
        let last = said.lines().rfind(|line| !line.starts_with('{')).unwrap_or_default();
        let mut ends = lock(&self.ends);
        if STORE_SETTINGS.iter().any(|setting| last.starts_with(setting)) {
            ends.refused += 1;
        } else {
            ends.wrong.push(format!("{} ended unexpectedly with {status}: {last}", self.slot.name));
        }
    }

    /// Waits until the process is running, and takes control of it for a fault. An earlier fault may have just released it.
    pub(super) async fn take_control(&self) {
        loop {
            let mut life = self.life.lock().await;
            if life.running.is_some() {
                life.is_controlled = true;
                return;
            }
            drop(life);
            sleep(LOOK_EVERY).await;
        }
    }

    pub(super) async fn release(&self) {
        self.life.lock().await.is_controlled = false;
    }

    pub(super) async fn signal(&self, signal: Signal) {
        if let Some(running) = &self.life.lock().await.running {
            running.signal(signal);
        }
    }

    pub(super) async fn kill(&self) {
        let mut life = self.life.lock().await;
        if let Some(mut running) = life.running.take() {
            running.signal(Signal::KILL);
            let _ = running.end().await;
            lock(&self.ends).killed += 1;
        }
    }

    pub(super) async fn terminate(&self) {
        let mut life = self.life.lock().await;
        let Some(mut running) = life.running.take() else { return };
        let begun = Instant::now();
        running.signal(Signal::TERM);
        let ended = timeout(STOP_PATIENCE, running.end()).await;
        let took = begun.elapsed();
        let mut ends = lock(&self.ends);
        ends.terminated += 1;
        ends.longest_stop = ends.longest_stop.max(took);
        if ended.is_err() || took > STOP_LIMIT {
            ends.wrong.push(format!("{} took {:.1} s to stop after SIGTERM", self.slot.name, took.as_secs_f64()));
        }
    }

    /// Restarts the process with a crash point, and waits up to `patience` for it to abort there. Returns whether it did.
    pub(super) async fn crash_at(&self, point: &str, patience: Duration) -> bool {
        // A worker that shuts down properly releases its partitions immediately.
        self.terminate().await;
        let deadline = Instant::now() + patience;
        let mut life = self.life.lock().await;
        while Instant::now() < deadline {
            self.spawn(&mut life, &[("FAIL_POINT", point.to_owned())]);
            let Some(mut running) = life.running.take() else { return false };
            let Ok(Ok(status)) = timeout_at(deadline, running.end()).await else {
                running.signal(Signal::KILL);
                let _ = running.end().await;
                return false;
            };
            if status.signal() == Some(Signal::ABORT.as_raw()) {
                lock(&self.ends).crashed += 1;
                return true;
            }
            // A store is unavailable. Start the process again, as a supervisor would.
            self.ended_by_itself(status);
            sleep(RESTART_PAUSE).await;
        }
        false
    }

    /// Waits until the process is ready, after all faults have ended.
    pub(super) async fn recover(&self) {
        let deadline = Instant::now() + READY_PATIENCE;
        while Instant::now() < deadline {
            let mut life = self.life.lock().await;
            if let Some(running) = &mut life.running
                && matches!(timeout(Duration::from_secs(5), running.until_ready()).await, Ok(Ok(())))
            {
                return;
            }
            drop(life);
            sleep(RESTART_PAUSE).await;
        }
        lock(&self.ends).wrong.push(format!("{} is not ready {READY_PATIENCE:?} after all faults", self.slot.name));
    }

    pub(super) async fn close(&self) {
        self.take_control().await;
        self.terminate().await;
    }
}
