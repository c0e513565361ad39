//! Batches over two shards, one of which takes its piece later: whoever reads meanwhile sees each whole or not at all.

use crate::pipeline::Pipeline;
use local::private::ClickHouse;
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{ClickHouseProxy, Seed, TestStores, size};
use std::time::Duration;
use stream_workers::Settings;
use tokio_util::sync::CancellationToken;

/// Events of a batch: of so many keys nearly every batch lies on both shards.
const EACH: u64 = 6;
/// How much later one shard has its piece.
const LATER: Duration = Duration::from_millis(400);

/// Stores over two shards, and what a worker is told: the second of them behind a proxy that holds inserts of observations back.
async fn slow_second_shard(pipeline: &Pipeline) -> (Settings, ClickHouseProxy) {
    let mut settings = pipeline.worker();
    let urls = settings.clickhouse.clickhouse_shards.urls().to_vec();
    let proxy =
        ClickHouseProxy::before(&urls[1], |request| {
            if request.settings.iter().any(|(_, value)| {
                value.starts_with("INSERT INTO `observations`") || value.starts_with("INSERT INTO observations")
            }) {
                std::thread::sleep(LATER);
            }
        })
        .await;
    let shards = [urls[0].clone(), proxy.url().to_owned()];
    settings.clickhouse = ClickHouseSettings { clickhouse_shards: shards.into_iter().collect(), ..settings.clickhouse };
    (settings, proxy)
}

fn batch(number: u64) -> Value {
    let event = |place| {
        json!({"type": "content_retrieved", "source_role": "edge", "id": format!("{number}-{place}"),
            "content_url": "https://example.com/", "timestamp": "2026-01-01T00:00:00Z"})
    };
    json!({"events": (0..EACH).map(event).collect::<Vec<_>>()})
}

fn total(text: &str, name: &str) -> u64 {
    serde_json::from_str::<Value>(text).unwrap()[name].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_batch_over_two_shards_is_seen_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_owned();
    let shards = tokio::task::spawn_blocking(move || ClickHouse::shards(&at, 2)).await.unwrap().unwrap();
    let pipeline = Pipeline::on(TestStores::over_shards(&shards).await).await;
    let orgs = Seed(&pipeline.stores.pool);
    let (owner, network) = (orgs.owner_of("example.com").await, orgs.org("network", OrgType::Platform).await);
    let (settings, proxy) = slow_second_shard(&pipeline).await;
    let stop = CancellationToken::new();
    let working = {
        let stop = stop.clone();
        tokio::spawn(async move { stream_workers::work(&settings, stop).await })
    };
    let batches = size("TEST_ROUNDS", 20) as u64;
    let reporting = async {
        for number in 0..batches {
            pipeline.post("/events", &network.key, &batch(number)).await;
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    };
    let reading = async {
        let (mut last, mut looks) = (0, 0);
        while last < batches * EACH {
            for (key, path, name) in [
                (&owner.key, "/content-owners/summary", "total_events"),
                (&owner.key, "/content-owners/events?limit=1", "total"),
                (&network.key, "/agent/events?limit=1", "total"),
            ] {
                let found = total(&pipeline.read(key, path).await, name);
                assert_eq!(found % EACH, 0, "{path}: half of a batch after {last}");
                assert!(found >= last, "{path}: {found} after {last}");
                last = found;
            }
            looks += 1;
        }
        assert!(looks > 1, "nobody looked while batches came");
    };
    tokio::join!(reporting, reading);
    let held = proxy
        .take_requests()
        .into_iter()
        .filter(|request| request.settings.iter().any(|(_, value)| value.contains("observations") && value.starts_with("INSERT")))
        .count();
    assert!(held > 0, "no piece came later");
    stop.cancel();
    working.await.unwrap().unwrap();
}
