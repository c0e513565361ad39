//! ClickHouse dies of `kill -9` while it is compacted, before the insert, between it and the drops, and between two drops.

use super::oracle::Store;
use local::private::ClickHouse;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use service_kit::settings::ClickHouseSettings;
use service_kit::stores;
use service_kit::testing::{eventually, random_seed, size};
use std::path::Path;
use std::time::Duration;
use tokio::task::spawn_blocking;

async fn answers(settings: &ClickHouseSettings) {
    eventually("ClickHouse is there", || async { stores::check_clickhouse(settings).await.ok() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_killed_while_it_is_compacted_loses_nothing_and_counts_nothing_twice() {
    let mut random = StdRng::seed_from_u64(random_seed());
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_owned();
    let mut server = spawn_blocking(move || ClickHouse::start(Path::new(&at))).await.unwrap().unwrap();
    let settings = ClickHouseSettings::at(server.url(), "telemetry");
    stores::apply_clickhouse_ddl(&settings).await.unwrap();
    let store = Store::at(settings.clone());
    for round in 0..size("TEST_KILLS", 4) {
        for _ in 0..3 {
            store.insert(150, random.random_range(0..1_000_000_000), 200).await;
        }
        let (compactor, moment) = (store.compactor.clone(), Duration::from_millis(random.random_range(0..250)));
        let compaction = tokio::spawn(async move { compactor.compact_all().await });
        tokio::time::sleep(moment).await;
        server.kill_9();
        // Done, or refused because nobody answers.
        let done = compaction.await.unwrap().is_ok();
        server = spawn_blocking(move || server.restart().map(|()| server)).await.unwrap().unwrap();
        answers(&settings).await;
        store.agrees(&format!("round {round}, killed after {moment:?}, compacted: {done}")).await;
    }
    store.compactor.compact_all().await.unwrap();
    assert_eq!(store.parts().await, []);
    store.agrees("at the end").await;
    server.kill_9();
}
