//! Two shards, each with its own worker, read one log. Together they store what one server stores, whatever process crashes.

use crate::test_app::{NEW_YEAR_US, PARTITIONS, RunningTask, TestApp, Workers, record, settings};
use local::test_servers::ClickHouse;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use schemas::log::LogRecord;
use schemas::shard::{Buckets, Shard};
use serde_json::{Value, json};
use service_kit::testing::{TestStores, random_seed};
use std::collections::BTreeSet;
use stream_workers::Settings;
use stream_workers::partition_stats::Counts;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

const SHARDS: usize = 2;
const RECORDS: usize = 400;
/// Headers of unreadable records: of the first shard, of the second one, and of both.
const UNREADABLE: [&str; 4] = ["00", "01", "0001", "*"];

/// One server and two shards of the same log.
struct ShardFixture {
    one: TestApp,
    shards: Vec<TestApp>,
    servers: Vec<ClickHouse>,
    _folder: tempfile::TempDir,
}

impl ShardFixture {
    async fn start() -> Self {
        let (one, folder) = (Workers::start().await, tempfile::tempdir().unwrap());
        let at = folder.path().to_owned();
        let servers = spawn_blocking(move || ClickHouse::shards(&at, SHARDS)).await.unwrap().unwrap();
        let stores = one.stores.prepare_shards(&servers).await.into_iter();
        let shards = stores.map(|clickhouse| Workers::on(TestStores { clickhouse, ..one.stores.clone() })).collect();
        Self { one, shards, servers, _folder: folder }
    }

    fn settings_of(&self, number: usize) -> Settings {
        let mut settings = settings(&self.shards[number].stores);
        settings.tuning.shard = shard(number + 1);
        settings
    }

    async fn put(&self, records: &[(i32, String, Option<String>)]) {
        for (partition, text, buckets) in records {
            self.one.log.put_with_buckets(*partition, text.as_bytes(), buckets.as_deref()).await;
        }
    }

    /// Returns each shard's counts after it has passed all offsets.
    async fn counts(&self) -> Vec<Counts> {
        let mut counts = Vec::new();
        for shard in &self.shards {
            counts.push(shard.processed().await);
        }
        counts
    }

    async fn table(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for shard in &self.shards {
            rows.extend(shard.table().await);
        }
        rows.sort_unstable();
        rows
    }
}

fn shard(number: usize) -> Shard {
    format!("{number}/{SHARDS}").parse().unwrap()
}

/// Returns a report on one of a few hosts or without a host, sometimes with a correlation id that others use too.
fn random_event(random: &mut StdRng) -> Value {
    let host = ["com.example", "com.example.a", "com.example.b", "test.shop", "test.news", ""].choose(random).unwrap();
    let key: u128 = random.random_range(0..300);
    let mut event = json!({"own_key": format!("{key:032x}"), "id": format!("event-{key:06}"), "type": "content_retrieved",
        "at_ms": NEW_YEAR_US / 1_000, "site": host, "source_role": (["agent", "edge", "origin"].choose(random).unwrap())});
    if random.random_bool(0.5) {
        event["correlation_key"] = json!(format!("{:032x}", random.random_range(0..60_u128)));
    }
    event
}

/// Returns a request, usually with the header that a gateway writes.
fn random_record(random: &mut StdRng, number: usize) -> (i32, String, Option<String>) {
    let events: Vec<Value> = (0..random.random_range(1..5)).map(|_| random_event(random)).collect();
    let record = record(random.random_range(1..4), NEW_YEAR_US + number as i64, &events);
    let decoded: LogRecord = serde_json::from_value(record.clone()).unwrap();
    let buckets = random.random_bool(0.9).then(|| Buckets::for_record(&decoded).to_header());
    (random.random_range(0..PARTITIONS), record.to_string(), buckets)
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_together_store_the_rows_of_one_server() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = ShardFixture::start().await;
    let mut records: Vec<_> = (0..RECORDS).map(|number| random_record(&mut random, number)).collect();
    for buckets in UNREADABLE {
        records.insert(random.random_range(0..records.len()), (0, "{".to_owned(), Some(buckets.to_owned())));
    }
    let (first, second) = records.split_at(RECORDS / 2);
    world.put(first).await;
    let workers = [world.one.worker(), RunningTask::start(world.settings_of(0)), RunningTask::start(world.settings_of(1))];
    // A standby of the first shard must continue; the second shard's server is killed and restarted.
    let [of_one, dies, of_second] = workers;
    let standby = RunningTask::start(world.settings_of(0));
    world.shards[0].caught_up().await;
    drop(dies);
    let mut server = world.servers.pop().unwrap();
    let server = spawn_blocking(move || {
        server.kill_9();
        server.restart().map(|()| server)
    });
    world.put(second).await;
    world.servers.push(server.await.unwrap().unwrap());
    for app in world.shards.iter().chain([&world.one]) {
        app.caught_up().await;
    }
    for worker in [of_one, standby, of_second] {
        worker.stop().await;
    }
    assert_eq!(world.table().await, world.one.table().await, "seed {seed}");
    let (counts, of_one) = (world.counts().await, world.one.processed().await);
    let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum::<u64>();
    assert!(counts.iter().all(|counts| counts.records == records.len() as u64 && counts.stored > 0), "{counts:?}: seed {seed}");
    assert_eq!(sum(|counts| counts.stored), of_one.stored, "seed {seed}");
    assert_eq!(sum(|counts| counts.rejected_records), of_one.rejected_records, "seed {seed}");
    let letters: Vec<String> = world.one.log.dead_letters().await.into_iter().map(|letter| letter.origin).collect();
    // Several shards, and workers that take over, can reject the same record.
    let records: BTreeSet<&String> = letters.iter().collect();
    assert_eq!(records.len(), UNREADABLE.len(), "{letters:?}: seed {seed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_another_shards_tables() {
    let app = Workers::start().await;
    let worker_of = |number| {
        let mut settings = app.settings();
        settings.tuning.shard = shard(number);
        settings
    };
    app.put(&[(0, record(1, NEW_YEAR_US, &[]))]).await;
    let worker = RunningTask::start(worker_of(1));
    app.caught_up().await;
    worker.stop().await;
    let refused = stream_workers::run_worker(&worker_of(2), CancellationToken::new()).await.unwrap_err().to_string();
    assert_eq!(refused, "TELEMETRY_SHARD=2/2: these tables belong to shard 1/2; correct the setting or CLICKHOUSE_URL");
}
