//! C6: two workers of one group, and two groups by mistake.

use crate::world::{NEW_YEAR_US, PARTITIONS, Working, World, event, record, settings};
use serde_json::Value;

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
