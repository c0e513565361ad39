//! C6, F23, F24: several workers of one group that come, go, die and hang, and two groups by mistake.
//!
//! `REBALANCE_ROUNDS=200` churns for about ten minutes, `ZOMBIE_ROUNDS=100` as often as it is meant.

use crate::scrape;
use crate::test_app::{NEW_YEAR_US, PARTITIONS, TestApp, Working, event, record, settings};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use service_kit::testing::{TestProcess, eventually, free_address, random_seed, size};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const EVENTS: u128 = 2_000;

fn stream() -> Vec<(i32, Value)> {
    (0..EVENTS).map(|n| (i32::try_from(n).unwrap() % PARTITIONS, record(1, NEW_YEAR_US, &[event(n)]))).collect()
}

fn ids() -> Vec<String> {
    (0..EVENTS).map(|n| format!("event-{n:06}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_of_one_group_share_the_log_exactly() {
    let app = TestApp::new().await;
    let (one, two) = (app.worker(), app.worker());
    for portion in stream().chunks(200) {
        app.put(portion).await;
    }
    app.log.caught_up(&app.group()).await;
    assert!(one.is_running() && two.is_running());
    // One leaves while records flow, and what it held in hand is the other's.
    app.put(&stream()).await;
    one.stop().await;
    app.log.caught_up(&app.group()).await;
    two.stop().await;
    assert_eq!(app.visible().await, ids());
    let settled = app.settled().await;
    assert_eq!((u128::from(settled.records), u128::from(settled.events())), (2 * EVENTS, 2 * EVENTS), "{settled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_groups_by_mistake_change_no_row() {
    let app = TestApp::new().await;
    let other = format!("{}-other", app.group());
    let (one, two) = (app.worker(), Working::start(settings(&app.stores, &other)));
    for portion in stream().chunks(200) {
        app.put(portion).await;
    }
    app.log.caught_up(&app.group()).await;
    app.log.caught_up(&other).await;
    one.stop().await;
    two.stop().await;
    assert_eq!(app.visible().await, ids());
}

/// Somebody who puts records on the log until asked to stop, and then says how many.
struct Writing(CancellationToken, tokio::task::JoinHandle<()>, Arc<AtomicU64>);

impl Writing {
    fn start(app: &Arc<TestApp>) -> Self {
        let (app, stop, written) = (Arc::clone(app), CancellationToken::new(), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), Arc::clone(&written));
        let task = tokio::spawn(async move {
            while !stopped.is_cancelled() {
                let first = u128::from(counted.load(Ordering::Relaxed));
                let one = |n: u128| (i32::try_from(n % 6).unwrap() % PARTITIONS, record(1, NEW_YEAR_US, &[event(n)]));
                app.put(&(first..first + 12).map(one).collect::<Vec<_>>()).await;
                counted.fetch_add(12, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        });
        Self(stop, task, written)
    }

    /// The ids of all that was written.
    async fn stop(self) -> Vec<String> {
        self.0.cancel();
        self.1.await.unwrap();
        (0..self.2.load(Ordering::Relaxed)).map(|n| format!("event-{n:06}")).collect()
    }
}

async fn progresses(app: &TestApp, what: &str) {
    let before = app.visible().await.len();
    eventually(what, || async { (app.visible().await.len() > before).then_some(()) }).await;
}

/// F23: three processes of which one is always on its way out, by SIGTERM or kill -9, and another on its way in.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_come_and_go_lose_nothing_double_nothing_and_keep_going() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let (app, _broker) = TestApp::with_own_broker(folder.path()).await;
    let app = Arc::new(app);
    let writing = Writing::start(&app);
    let mut workers: Vec<TestProcess> = vec![app.process().await, app.process().await];
    for round in 0..size("REBALANCE_ROUNDS", 4) {
        workers.push(app.process().await);
        progresses(&app, "the group makes progress with one more").await;
        tokio::time::sleep(Duration::from_millis(random.random_range(0..1_500))).await;
        let mut leaving = workers.swap_remove(random.random_range(0..workers.len()));
        if round % 2 == 0 {
            assert_eq!(leaving.terminate().await, Some(0), "seed {seed}: {}", leaving.stderr());
        } else {
            leaving.kill_9().await;
        }
        progresses(&app, "the group makes progress with one less").await;
    }
    let written = writing.stop().await;
    app.log.caught_up(&app.group()).await;
    assert_eq!(app.visible().await, written, "seed {seed}");
    assert_eq!(app.settled().await.events(), written.len() as u64, "seed {seed}: whoever died, each is counted once");
    assert_eq!(app.log.set_aside().await, [], "seed {seed}: nobody blames a record for a process that was killed");
}

/// F24: a worker that hangs until the group has given its partitions away, and then goes on where it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_wakes_up_after_it_was_given_up_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _broker) = TestApp::with_own_broker(folder.path()).await;
    let app = Arc::new(app);
    let writing = Writing::start(&app);
    let mut zombie = app.process().await;
    progresses(&app, "the first one works").await;
    for _ in 0..size("ZOMBIE_ROUNDS", 1) {
        zombie.pause();
        let mut heir = app.process().await;
        // More than what a partition or two can hold: it has them all.
        eventually("the heir has caught up with the writer", || async {
            (app.log.uncommitted(&app.group()).await < 60).then_some(())
        })
        .await;
        zombie.resume();
        progresses(&app, "both work").await;
        assert!(!zombie.has_ended() && !heir.has_ended(), "{}{}", zombie.stderr(), heir.stderr());
        assert_eq!(heir.terminate().await, Some(0));
        progresses(&app, "the one that hung works again").await;
    }
    let written = writing.stop().await;
    app.log.caught_up(&app.group()).await;
    assert_eq!(app.visible().await, written);
    assert_eq!(app.settled().await.events(), written.len() as u64);
    assert_eq!(zombie.terminate().await, Some(0), "{}", zombie.stderr());
}

/// What a counter of a worker says; 0 while it has not been touched.
async fn counter(metrics: &str, name: &str) -> Option<u64> {
    let text = scrape::text(metrics).await?;
    Some(text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()).unwrap_or(0))
}

/// A worker that slept through the loss of its partitions wakes up with a block in hand that another has inserted since.
#[tokio::test(flavor = "multi_thread")]
async fn c6_two_workers_forced_onto_one_partition_change_no_row() {
    let app = TestApp::new().await;
    let (listen, metrics) = (free_address().to_string(), free_address().to_string());
    let mut environment = app.environment(&listen, &metrics);
    // it is still filling its block when it falls asleep
    environment.push(("TELEMETRY_BLOCK_AGE_MS", "30000".to_owned()));
    let mut sleeper = TestProcess::service(&[], &environment);
    sleeper.answers(&format!("http://{listen}/ready")).await;
    app.put(&stream()).await;
    let records = u64::try_from(EVENTS).unwrap();
    eventually("it has read everything", || async {
        (counter(&metrics, "worker_records_total").await? == records).then_some(())
    })
    .await;
    sleeper.pause();
    assert_eq!(app.visible().await, Vec::<String>::new(), "nothing of it is inserted yet");

    let heir = app.worker();
    app.log.caught_up(&app.group()).await;
    assert_eq!(app.visible().await, ids());
    sleeper.resume();
    eventually("the sleeper inserts what it holds", || async {
        (counter(&metrics, "worker_rows_inserted_total").await? >= records).then_some(())
    })
    .await;
    assert_eq!(app.visible().await, ids());
    app.put(&stream()).await;
    app.log.caught_up(&app.group()).await;
    assert_eq!(app.visible().await, ids());
    assert_eq!(u128::from(app.settled().await.events()), 2 * EVENTS, "what both have inserted is counted once");
    assert!(heir.is_running());
    heir.stop().await;
    assert_eq!(sleeper.terminate().await, Some(0), "{}", sleeper.stderr());
}
