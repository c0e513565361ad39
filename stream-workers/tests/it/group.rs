//! C6: two workers of one group, and two groups by mistake.

use crate::world::{BINARY, NEW_YEAR_US, PARTITIONS, Working, World, event, record, settings};
use serde_json::Value;
use service_kit::testing::{TestProcess, client, eventually, free_address};
use std::path::Path;

const EVENTS: u128 = 2_000;

fn stream() -> Vec<(i32, Value)> {
    (0..EVENTS).map(|n| (i32::try_from(n).unwrap() % PARTITIONS, record(1, NEW_YEAR_US, &[event(n)]))).collect()
}

fn ids() -> Vec<String> {
    (0..EVENTS).map(|n| format!("event-{n:06}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_of_one_group_share_the_log_exactly() {
    let world = World::new().await;
    let (one, two) = (world.worker(), world.worker());
    for portion in stream().chunks(200) {
        world.put(portion).await;
    }
    world.log.caught_up(&world.group()).await;
    assert!(one.is_running() && two.is_running());
    // One leaves while records flow, and what it held in hand is the other's.
    world.put(&stream()).await;
    one.stop().await;
    world.log.caught_up(&world.group()).await;
    two.stop().await;
    assert_eq!(world.visible().await, ids());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_groups_by_mistake_change_no_row() {
    let world = World::new().await;
    let other = format!("{}-other", world.group());
    let (one, two) = (world.worker(), Working::start(settings(&world.stores, &other)));
    for portion in stream().chunks(200) {
        world.put(portion).await;
    }
    world.log.caught_up(&world.group()).await;
    world.log.caught_up(&other).await;
    one.stop().await;
    two.stop().await;
    assert_eq!(world.visible().await, ids());
}

/// What a counter of a worker says; 0 while it has not been touched.
async fn counter(metrics: &str, name: &str) -> Option<u64> {
    let text = client().get(format!("http://{metrics}/metrics")).send().await.ok()?.text().await.ok()?;
    Some(text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()).unwrap_or(0))
}

/// A worker that slept through the loss of its partitions wakes up with a block in hand that another has inserted since.
#[tokio::test(flavor = "multi_thread")]
async fn c6_two_workers_forced_onto_one_partition_change_no_row() {
    let world = World::new().await;
    let (listen, metrics) = (free_address().to_string(), free_address().to_string());
    let mut environment = world.environment(&listen, &metrics);
    // it is still filling its block when it falls asleep
    environment.push(("TELEMETRY_BLOCK_AGE_MS", "30000".to_owned()));
    let mut sleeper = TestProcess::start(Path::new(BINARY), &[], &environment);
    sleeper.answers(&format!("http://{listen}/ready")).await;
    world.put(&stream()).await;
    let records = u64::try_from(EVENTS).unwrap();
    eventually("it has read everything", || async {
        (counter(&metrics, "worker_records_total").await? == records).then_some(())
    })
    .await;
    sleeper.pause();
    assert_eq!(world.visible().await, Vec::<String>::new(), "nothing of it is inserted yet");

    let heir = world.worker();
    world.log.caught_up(&world.group()).await;
    assert_eq!(world.visible().await, ids());
    sleeper.resume();
    eventually("the sleeper inserts what it holds", || async {
        (counter(&metrics, "worker_rows_inserted_total").await? >= records).then_some(())
    })
    .await;
    assert_eq!(world.visible().await, ids());
    world.put(&stream()).await;
    world.log.caught_up(&world.group()).await;
    assert_eq!(world.visible().await, ids());
    assert!(heir.is_running());
    heir.stop().await;
    assert_eq!(sleeper.terminate().await, Some(0), "{}", sleeper.stderr());
}
