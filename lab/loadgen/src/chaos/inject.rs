//! Carries out the plan: injects each fault at its time, and ends it.

use super::cluster::Cluster;
use super::fault::{Fault, FaultKind, Target};
use super::operation_log::OperationLog;
use super::plan::Plan;
use super::proxy::Mode;
use super::service_process::ServiceProcess;
use super::stores::{ServerAction, Store};
use crate::drive::lock;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Time limit for a process to reach its crash point, on top of the fault's duration.
const CRASH_PATIENCE: Duration = Duration::from_secs(90);
/// Time after which a worker has a block that the store hasn't acknowledged.
const IN_HAND: Duration = Duration::from_millis(1_500);

#[derive(Clone, Debug, Default)]
pub(super) struct Injected {
    pub(super) done: BTreeMap<(&'static str, String), u64>,
    pub(super) unreached: Vec<String>,
    pub(super) last_undone: Option<Instant>,
    /// Servers that didn't restart.
    pub(super) failed: Vec<String>,
}

impl Injected {
    pub(super) fn count(&self) -> u64 {
        self.done.values().sum()
    }
}

pub(super) struct Injector {
    cluster: Arc<Cluster>,
    history: Arc<OperationLog>,
    /// Locks that permit one fault at a time per group of targets.
    lanes: Mutex<BTreeMap<Target, Arc<tokio::sync::Mutex<()>>>>,
    injected: Mutex<Injected>,
}

impl Injector {
    pub(super) fn new(cluster: &Arc<Cluster>, history: &Arc<OperationLog>) -> Arc<Self> {
        let (cluster, history) = (Arc::clone(cluster), Arc::clone(history));
        Arc::new(Self { cluster, history, lanes: Mutex::default(), injected: Mutex::default() })
    }

    pub(super) fn so_far(&self) -> u64 {
        lock(&self.injected).count()
    }

    /// Carries out the plan until its end or `stop`. Returns once all faults have ended.
    pub(super) async fn follow(self: Arc<Self>, plan: Plan, stop: CancellationToken) -> Injected {
        let (begun, tracker) = (Instant::now(), TaskTracker::new());
        for fault in plan.faults {
            tokio::select! {
                () = stop.cancelled() => break,
                () = sleep_until(begun + fault.at) => {}
            }
            let injector = Arc::clone(&self);
            tracker.spawn(async move { injector.carry_out(fault).await });
        }
        tracker.close();
        tracker.wait().await;
        lock(&self.injected).clone()
    }

    async fn carry_out(&self, fault: Fault) {
        let lane = Arc::clone(lock(&self.lanes).entry(fault.target.lane()).or_default());
        let _alone = lane.lock().await;
        self.history.write_line(&format!("begin {} {}", fault.target, fault.kind));
        let outcome = match self.service(fault.target) {
            Some(post) => self.inject_service_fault(post, fault).await,
            None => self.inject_store_fault(fault).await,
        };
        self.history.write_line(&format!("end   {} {}", fault.target, fault.kind));
        let mut injected = lock(&self.injected);
        injected.last_undone = Some(Instant::now());
        *injected.done.entry((fault.kind.kind(), fault.target.to_string())).or_default() += 1;
        if let Err(error) = outcome {
            injected.failed.push(format!("{fault}: {error:#}"));
        }
    }

    fn service(&self, target: Target) -> Option<&Arc<ServiceProcess>> {
        match target {
            Target::Gateway(number) => self.cluster.gateways.get(number),
            Target::Worker(number) => self.cluster.workers.get(number),
            Target::Query(number) => self.cluster.queries.get(number),
            Target::Broker(_) | Target::ClickHouse(_) | Target::Postgres => None,
        }
    }

    fn others(&self, target: Target) -> Vec<&Arc<ServiceProcess>> {
        let workers = (0..).map(Target::Worker).zip(&self.cluster.workers);
        let others = workers.filter(|(other, _)| *other != target && other.lane() == target.lane());
        others.map(|(_, worker)| worker).collect()
    }

    async fn inject_service_fault(&self, post: &ServiceProcess, fault: Fault) -> anyhow::Result<()> {
        post.take_control().await;
        match fault.kind {
            FaultKind::Kill => {
                match fault.target {
                    Target::Worker(_) => self.kill_during_insert(post, fault).await,
                    _ => post.kill().await,
                }
                sleep(fault.lasts).await;
            }
            FaultKind::Terminate => {
                post.terminate().await;
                sleep(fault.lasts).await;
            }
            FaultKind::Pause => {
                post.signal(Signal::STOP).await;
                sleep(fault.lasts).await;
                post.signal(Signal::CONT).await;
            }
            FaultKind::CrashAt(point, pass) => {
                // A standby doesn't reach crash points, so the other workers are stopped.
                let others = self.others(fault.target);
                for other in &others {
                    other.take_control().await;
                    other.terminate().await;
                }
                self.crash(post, fault, &format!("{point}:1/{pass}")).await;
                for other in &others {
                    other.release().await;
                }
            }
            FaultKind::Link(_) => {}
        }
        post.release().await;
        Ok(())
    }

    /// Waits for a crash point. Those in the spill are reached only while the log is unavailable, those in draining the spill only after
    /// that.
    async fn crash(&self, post: &ServiceProcess, fault: Fault, point: &str) {
        let set_log = |mode| self.cluster.stores.brokers().for_each(|broker| broker.proxy.set(mode));
        let crash = post.crash_at(point, fault.lasts + CRASH_PATIENCE);
        let has_crashed = if fault.kind.needs_spill() {
            let lane = Arc::clone(lock(&self.lanes).entry(Target::Broker(0)).or_default());
            let _alone = lane.lock().await;
            set_log(Mode::BlackHole);
            let back = async {
                sleep(fault.lasts).await;
                if point.starts_with("drain") {
                    set_log(Mode::Pass);
                }
            };
            let (has_crashed, ()) = tokio::join!(crash, back);
            set_log(Mode::Pass);
            has_crashed
        } else {
            crash.await
        };
        if !has_crashed {
            lock(&self.injected).unreached.push(format!("{} {}", fault.target, fault.kind));
        }
    }

    /// Kills a worker at the worst moments: before its rows are inserted, or afterwards but before it receives the response.
    async fn kill_during_insert(&self, worker: &ServiceProcess, fault: Fault) {
        let Some(server) = fault.target.server_of_worker() else { return };
        let Some(store) = self.cluster.stores.store(server) else { return };
        let lane = Arc::clone(lock(&self.lanes).entry(server).or_default());
        let _alone = lane.lock().await;
        store.proxy.set(if fault.lasts.as_millis().is_multiple_of(2) { Mode::BlackHole } else { Mode::DropAnswers });
        sleep(IN_HAND).await;
        worker.kill().await;
        // Otherwise, data held in the black hole would arrive after its sender has died.
        store.proxy.set(Mode::Reset);
        sleep(IN_HAND / 10).await;
        store.proxy.set(Mode::Pass);
    }

    async fn inject_store_fault(&self, fault: Fault) -> anyhow::Result<()> {
        let Some(store) = self.cluster.stores.store(fault.target) else { return Ok(()) };
        // A link fault doesn't stop the server, so the supervisor may restart it meanwhile.
        let _held = if matches!(fault.kind, FaultKind::Link(_)) { None } else { Some(store.held.lock().await) };
        match fault.kind {
            FaultKind::Kill => end_and_restart(store, ServerAction::Kill, fault.lasts).await,
            FaultKind::Terminate => end_and_restart(store, ServerAction::Terminate, fault.lasts).await,
            FaultKind::Pause => {
                store.perform(ServerAction::Pause).await?;
                sleep(fault.lasts).await;
                store.perform(ServerAction::Resume).await
            }
            FaultKind::Link(mode) => {
                store.proxy.set(mode);
                sleep(fault.lasts).await;
                store.proxy.set(Mode::Pass);
                Ok(())
            }
            FaultKind::CrashAt(..) => Ok(()),
        }
    }
}

async fn end_and_restart(store: &Store, act: ServerAction, lasts: Duration) -> anyhow::Result<()> {
    store.perform(act).await?;
    sleep(lasts).await;
    store.perform(ServerAction::Restart).await
}
