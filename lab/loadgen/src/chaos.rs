//! Chaos test: kills, pauses and disconnects the processes of its own stack under load, and checks every read.
//!
//! ```text
//!  seed ──► plan ──► inject ──► service_process, stores, proxy         operations ──► sender ──► gateways
//!                                      │                                                │ outcome of each request
//!                                      ▼                                                ▼
//!      tenants' reads and the tables ──► read_loop, reader, table_checks ──► oracle, operation_log ──► outcome
//! ```
//!
//! The run is clean only if every check passed. A check that couldn't be made at the end counts as failed.

mod responses;
mod operations;
mod cluster;
mod requirements;
mod fault;
mod operation_log;
mod inject;
mod item_checks;
mod final_reads;
mod cdn_log;
mod options;
mod outcome;
mod plan;
pub mod proxy;
mod table_checks;
mod reader;
mod reconcile;
mod replays;
mod requests;
mod sender;
mod service_process;
mod stores;
mod read_loop;
mod read_counts;

pub use fault::{Fault, FaultKind, Target};
pub use options::ChaosOptions;
pub use plan::{Outage, Plan};

use crate::Verdict;
use crate::client::Endpoint;
use crate::drive::lock;
use crate::workload::Shape;
use cdn_log::{CdnLog, LogTotals};
use cluster::Cluster;
use inject::{Injected, Injector};
use operation_log::OperationLog;
use operations::REQUEST_LENGTHS;
use outcome::Outcome;
use read_counts::ReadCounts;
use read_loop::ReadLoop;
use requirements::Requirements;
use sender::{LoadState, SENDERS};
use service_kit::clock::Clock;
use service_kit::databases::clickhouse;
use std::sync::Arc;
use std::time::Duration;
use table_checks::TableChecks;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const TELL_EVERY: Duration = Duration::from_secs(10);

/// Features that the services are built with. With crash points, a service aborts at the point named in `FAIL_POINT`.
pub(crate) const FEATURES: &[&str] = &["telemetry/crash-points"];

/// How long load and reads continue after an outage.
const AFTER_OUTAGE: Duration = Duration::from_secs(30);

pub async fn run(options: &ChaosOptions, stop: CancellationToken) -> anyhow::Result<Verdict> {
    let seed = options.seed.unwrap_or_else(|| rand::random::<u32>().into());
    let plan = options.plan(seed);
    println!("seed {seed}");
    if options.plan {
        print!("{plan}");
        return Ok(Verdict::Clean);
    }
    let begun = Instant::now();
    let cluster = Arc::new(Cluster::start(options).await?);
    eprintln!("everything is up after {:.0} s", begun.elapsed().as_secs_f64());
    let history = Arc::new(OperationLog::begin(&cluster.folder)?);
    let front = load_state(options, &plan, &cluster, &history)?;
    let (injected, mut watcher) = run_load_and_faults(options, &plan, &cluster, &front, &stop).await?;
    let (live, end_of_load) = (watcher.watched(), Clock::System.now());
    eprintln!("all faults are over; waiting until all acknowledged events are readable");
    for post in cluster.services() {
        post.recover().await;
    }
    let well = Instant::now();
    let worked_off = reconcile::wait_until_processed(&cluster).await;
    let quiesced = watcher.wait_until_caught_up().await.then(|| well.elapsed());
    match quiesced {
        Some(after) => eprintln!("all events are readable after {:.1} s; checking all of them", after.as_secs_f64()),
        None => eprintln!("acknowledged events are still missing; checking all of them nevertheless"),
    }
    watcher.read_everything().await;
    let (logs, mut wrong) = front.logs.wait_and_compare().await;
    wrong.extend(worked_off.err().map(|error| format!("{error:#}")));
    let replayed = replays::replay_end_of_load(&cluster, end_of_load).await;
    let reconciled = reconcile::reconcile(&cluster, &front).await;
    cluster.close().await;
    history.flush();
    let mut outcome = build_outcome(
        options,
        plan,
        begun.elapsed(),
        &cluster,
        &front,
        injected,
        watcher.watched(),
        &live,
        quiesced,
        stop.is_cancelled(),
    );
    outcome.add_sums(reconciled);
    outcome.add_replays(replayed);
    outcome.add_log_totals(logs, wrong);
    println!("{outcome}");
    let verdict = outcome.verdict();
    let cluster = Arc::try_unwrap(cluster).map_err(|_| anyhow::anyhow!("a task still uses the stack"))?;
    cluster.delete(verdict == Verdict::Broken).await?;
    Ok(verdict)
}

fn load_state(
    options: &ChaosOptions,
    plan: &Plan,
    cluster: &Cluster,
    history: &Arc<OperationLog>,
) -> anyhow::Result<Arc<LoadState>> {
    let shape = Shape {
        seed: plan.seed,
        run: rand::random(),
        started_at_ms: Clock::System.now().timestamp_millis(),
        late_percent: 0,
        request_lengths: REQUEST_LENGTHS.to_vec(),
    };
    let gateways = cluster.gateways.iter().map(|post| Endpoint::parse(&post.slot.url())).collect::<Result<Vec<_>, _>>()?;
    // The factor allows for repeats, which are acknowledged too, and for outages, during which no request is.
    #[expect(clippy::cast_precision_loss, reason = "a pace needs no precision")]
    let rate = options.events() as f64 * 1.6 / plan.length().as_secs_f64().max(1.0);
    let logs = CdnLog::new(&cluster.log_owner, &gateways, &queries(cluster)?[0], Clock::System.now(), history);
    Ok(LoadState::new(shape, cluster.tenants.clone(), gateways, logs, history, rate))
}

fn queries(cluster: &Cluster) -> anyhow::Result<Vec<Endpoint>> {
    cluster.queries.iter().map(|post| Endpoint::parse(&post.slot.url())).collect()
}

/// Runs load, faults and reads concurrently until the plan has ended and enough events are acknowledged.
async fn run_load_and_faults(
    options: &ChaosOptions,
    plan: &Plan,
    cluster: &Arc<Cluster>,
    front: &Arc<LoadState>,
    stop: &CancellationToken,
) -> anyhow::Result<(Injected, ReadLoop)> {
    let (end_of_load, end_of_reads) = (stop.child_token(), CancellationToken::new());
    let senders = TaskTracker::new();
    for number in 0..SENDERS {
        senders.spawn(Arc::clone(front).keep_sending(number, end_of_load.clone()));
    }
    senders.spawn(Arc::clone(&front.logs).keep_sending(front.shape.seed, end_of_load.clone()));
    senders.spawn(Arc::clone(&front.logs).keep_reading(end_of_load.clone()));
    senders.spawn(replays::keep_replaying(Arc::clone(cluster), end_of_load.clone()));
    senders.close();
    let raw = TableChecks::new(cluster.tables().map(clickhouse).collect::<Result<_, _>>()?);
    let watcher = ReadLoop::new(front, &queries(cluster)?, raw);
    let watching = tokio::spawn(watcher.keep_watching(end_of_reads.clone()));
    let injector = Injector::new(cluster, &front.history);
    let injecting = tokio::spawn(Arc::clone(&injector).follow(plan.clone(), stop.clone()));
    let begun = Instant::now();
    while !stop.is_cancelled() && (!injecting.is_finished() || front.distinct_acked() < options.events()) {
        sleep(TELL_EVERY.min(Duration::from_millis(200))).await;
        if begun.elapsed().as_millis() % TELL_EVERY.as_millis() < 200 {
            report_progress(begun.elapsed(), front, &injector);
        }
    }
    let injected = injecting.await?;
    if options.outage.is_some() {
        // The service must recover under load, so the load continues for a while.
        sleep(AFTER_OUTAGE).await;
    }
    end_of_load.cancel();
    senders.wait().await;
    end_of_reads.cancel();
    Ok((injected, watching.await??))
}

fn report_progress(after: Duration, front: &LoadState, injector: &Injector) {
    let violations = lock(&front.oracle).violations().count();
    let (acked, faults) = (front.distinct_acked(), injector.so_far());
    eprintln!("{:>5} s: {acked} events acknowledged, {faults} faults, {violations} violations", after.as_secs());
}

#[expect(clippy::too_many_arguments, reason = "all results of the run, in one call")]
fn build_outcome(
    options: &ChaosOptions,
    plan: Plan,
    took: Duration,
    cluster: &Cluster,
    front: &LoadState,
    injected: Injected,
    watched: ReadCounts,
    live: &ReadCounts,
    quiesced: Option<Duration>,
    is_stopped: bool,
) -> Outcome {
    let oracle = lock(&front.oracle);
    let bounds = || (0..front.tenants.len()).map(|tenant| oracle.bounds(tenant));
    let ends: Vec<_> = cluster.services().map(|post| post.ends()).collect();
    let mut wrong: Vec<String> = ends.iter().flat_map(|ends| ends.wrong.clone()).collect();
    wrong.extend(cluster.log_lines_with("panicked at"));
    if !injected.unreached.is_empty() && cluster.log_lines_with("FAIL_POINT is armed").is_empty() {
        wrong.push("no service has crash points: build them with --features crash-points".to_owned());
    }
    wrong.extend(injected.failed.clone());
    let acked = bounds().map(|(acked, _)| acked.total).sum();
    let resumed = injected.last_undone.and_then(|moment| watched.first_news_after(moment));
    let plan_and_load = Requirements { options, plan: &plan, injected: &injected, live, acked, resumed, is_stopped };
    wrong.extend(plan_and_load.unmet());
    Outcome {
        options: options.clone(),
        plan,
        took,
        ends,
        revived: cluster.stores.revived(),
        counts: front.history.counts(),
        resumed,
        watched,
        acked,
        possible: bounds().map(|(_, possible)| possible.total).sum(),
        quiesced,
        violations: oracle.violations().map(|(violation, times)| (violation.clone(), times)).collect(),
        wrong,
        injected,
        replayed: None,
        sums: None,
        logs: LogTotals::default(),
    }
}
