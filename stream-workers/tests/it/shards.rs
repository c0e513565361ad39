//! Observations over two servers: each row goes to the shard of its key, and whatever dies, none is lost and none is there twice.

use crate::replays::figures;
use crate::test_app::{NEW_YEAR_US, PARTITIONS, TestApp, record};
use local::private::ClickHouse;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use serde_json::{Value, json};
use service_kit::settings::ClickHouseShards;
use service_kit::stores;
use service_kit::testing::{TestStores, eventually, random_seed};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const SHARDS: usize = 2;
const KILLS: usize = 4;

async fn app_over_shards(folder: &Path) -> (TestApp, Vec<ClickHouse>) {
    let at = folder.to_owned();
    let shards = spawn_blocking(move || ClickHouse::shards(&at, SHARDS)).await.unwrap().unwrap();
    (TestApp::on(TestStores::over_shards(&shards).await), shards)
}

/// What this asks of each shard.
async fn of_each(app: &TestApp, statement: &str) -> Vec<Vec<String>> {
    let mut of_each = Vec::new();
    for client in stores::clickhouse_shards(&app.stores.clickhouse).unwrap() {
        of_each.push(client.query(statement).fetch_all().await.expect("the shard answers"));
    }
    of_each
}

/// Of every observation its first report with every column, by shard.
async fn table(app: &TestApp) -> Vec<Vec<String>> {
    let firsts = "SELECT * FROM observations ORDER BY version DESC LIMIT 1 BY site, event_key, org_id, observer";
    of_each(app, &format!("SELECT toString(tuple(*)) FROM ({firsts}) ORDER BY site, event_key, org_id, observer")).await
}

/// A retrieval on example.com, on the shard `number % SHARDS`.
fn event(number: u128) -> Value {
    let mut event = crate::test_app::event(number);
    let place = |own: u128| {
        let identity = EventKey::of_report(OrgId(Uuid::from_u128(1)), "com.example", EventKey(own));
        ClickHouseShards::place_of(identity.0, SHARDS)
    };
    let own = (0..).map(|attempt| number << 32 | attempt).find(|own| place(*own) as u128 == number % SHARDS as u128);
    event["own_key"] = json!(EventKey(own.expect("there is one")));
    event
}

/// The keys of all retrievals in the index, sorted; one that two rows or two shards have is there twice.
async fn indexed(app: &TestApp) -> Vec<u64> {
    let keys = "SELECT toString(key_low) FROM (SELECT DISTINCT site, key_low, key_high FROM retrieval_index WHERE site != '')";
    let mut keys: Vec<u64> = of_each(app, keys).await.concat().iter().map(|key| key.parse().unwrap()).collect();
    keys.sort_unstable();
    keys
}

/// The index has this many retrievals, and none twice.
async fn assert_indexed_once(app: &TestApp, retrievals: usize) {
    let keys = indexed(app).await;
    assert_eq!(keys.len(), retrievals);
    assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
}

/// Requests of three events each, of so many keys.
async fn put(app: &TestApp, keys: std::ops::Range<u64>) {
    let events: Vec<_> = keys.map(|key| event(u128::from(key))).collect();
    let requests = events.chunks(3).enumerate();
    let records: Vec<_> = requests
        .map(|(place, events)| (i32::try_from(place).unwrap() % PARTITIONS, record(1, NEW_YEAR_US + place as i64, events)))
        .collect();
    app.put(&records).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_lies_on_the_shard_of_its_key_and_each_shard_is_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _shards) = app_over_shards(folder.path()).await;
    put(&app, 0..300).await;
    let worker = app.worker();
    app.log.caught_up(&app.group()).await;
    for (place, keys) in of_each(&app, "SELECT toString(event_key) FROM observations FINAL").await.iter().enumerate() {
        assert_eq!(keys.len(), 150, "shard {place}");
        let there = |key: &String| ClickHouseShards::place_of(key.parse().unwrap(), SHARDS) == place;
        assert!(keys.iter().all(there), "shard {place}: {keys:?}");
    }
    eventually("both shards are compacted", || async {
        let tiers = "SELECT toString(tier) FROM (SELECT tier, count() FROM retrieval_index WHERE site != '' GROUP BY tier)";
        (of_each(&app, tiers).await == [["base"], ["base"]]).then_some(())
    })
    .await;
    assert_indexed_once(&app, 300).await;
    worker.stop().await;
}

/// One record after the other, each with events of both shards, until it is told to stop.
async fn write(app: Arc<TestApp>, written: Arc<AtomicU64>, stop: CancellationToken) {
    while !stop.is_cancelled() {
        let first = written.load(Ordering::Relaxed);
        put(&app, first..first + 12).await;
        written.fetch_add(12, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_killed_in_the_middle_of_inserts_loses_nothing_and_doubles_nothing() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let (app, mut shards) = app_over_shards(folder.path()).await;
    let (app, written, stop) = (Arc::new(app), Arc::new(AtomicU64::new(0)), CancellationToken::new());
    let worker = app.worker();
    let writing = tokio::spawn(write(Arc::clone(&app), Arc::clone(&written), stop.clone()));
    eventually("the worker has begun", || async { (!indexed(&app).await.is_empty()).then_some(()) }).await;
    for round in 0..KILLS {
        let shard = shards.remove(round % SHARDS);
        tokio::time::sleep(Duration::from_millis(random.random_range(200..1_500))).await;
        let shard = killed(shard).await;
        tokio::time::sleep(Duration::from_millis(random.random_range(0..1_500))).await;
        shards.insert(round % SHARDS, restarted(shard).await);
        let before = indexed(&app).await.len();
        eventually("the worker goes on", || async { (indexed(&app).await.len() > before).then_some(()) }).await;
        eprintln!("round {round}: {before} of {} were there when the shard came back", written.load(Ordering::Relaxed));
    }
    stop.cancel();
    writing.await.unwrap();
    app.log.caught_up(&app.group()).await;
    let expected: Vec<String> = (0..written.load(Ordering::Relaxed)).map(|n| format!("event-{n:06}")).collect();
    let mut found = of_each(&app, "SELECT event_id FROM observations FINAL").await.concat();
    found.sort_unstable();
    assert_eq!(found, expected, "seed {seed}");
    assert_eq!(indexed(&app).await.len(), expected.len(), "seed {seed}: the index has each once");
    assert_eq!(app.settled().await.events(), expected.len() as u64, "seed {seed}");
    assert!(worker.is_running());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_committed_nor_below_the_watermark_while_a_shard_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let (app, mut shards) = app_over_shards(folder.path()).await;
    let worker = app.worker();
    put(&app, 0..12).await;
    app.log.caught_up(&app.group()).await;
    let there = stores::clickhouse(&app.stores.clickhouse).unwrap();
    let watermarks = async || -> Vec<(i32, i64)> {
        let told = "SELECT partition, max(high_watermark) FROM high_watermarks GROUP BY partition ORDER BY partition";
        there.query(told).fetch_all().await.unwrap()
    };
    let before = watermarks().await;
    assert_eq!(before.len(), 4);
    let (first, second) = (shards.remove(0), killed(shards.remove(0)).await);
    put(&app, 12..24).await;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(watermarks().await, before, "the other shard lacks its pieces");
    }
    assert_eq!(app.log.uncommitted(&app.group()).await, 4);
    let _shards = [first, restarted(second).await];
    app.log.caught_up(&app.group()).await;
    assert_eq!(table(&app).await.iter().map(Vec::len).collect::<Vec<_>>(), [12, 12]);
    worker.stop().await;
}

async fn killed(mut shard: ClickHouse) -> ClickHouse {
    spawn_blocking(move || {
        shard.kill_9();
        shard
    })
    .await
    .unwrap()
}

async fn restarted(mut shard: ClickHouse) -> ClickHouse {
    spawn_blocking(move || shard.restart().map(|()| shard)).await.unwrap().unwrap()
}

/// How far each shard says that all of them have each partition.
async fn watermarks(app: &TestApp) -> Vec<Vec<String>> {
    let told = "SELECT toString((partition, max(high_watermark))) FROM high_watermarks GROUP BY partition ORDER BY partition";
    of_each(app, told).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_logged_again_is_stored_beside_the_first_and_read_again_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _shards) = app_over_shards(folder.path()).await;
    let request = record(1, NEW_YEAR_US, &[event(0), event(1), event(2), event(3)]);
    for partition in [0, 1] {
        app.put(&[(partition, request.clone())]).await;
        app.work_off(&app.group()).await;
    }
    let (code, _, stderr) = app.command(&["replay", "--expect-unchanged"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    for client in stores::clickhouse_shards(&app.stores.clickhouse).unwrap() {
        client.query("OPTIMIZE TABLE observations FINAL").execute().await.unwrap();
    }
    let positions =
        "SELECT toString((log_partition, log_offset, count())) FROM observations GROUP BY ALL ORDER BY log_partition, log_offset";
    assert_eq!(of_each(&app, positions).await, [["(0,0,2)", "(1,0,2)"], ["(0,0,2)", "(1,0,2)"]]);
    assert_eq!(watermarks(&app).await, [["(0,1)", "(1,1)"], ["(0,1)", "(1,1)"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_and_a_rebuild_over_both_shards_are_right() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _shards) = app_over_shards(folder.path()).await;
    put(&app, 0..120).await;
    app.work_off(&app.group()).await;
    // A repeat that comes later stays a row of its own, and changes no figure.
    app.put(&[(0, record(1, NEW_YEAR_US + 1_000, &[event(0)]))]).await;
    app.work_off(&app.group()).await;
    assert_eq!(of_each(&app, "SELECT toString(count()) FROM observations").await, [["61"], ["60"]]);
    let whole = table(&app).await;
    assert_eq!(whole.iter().map(Vec::len).collect::<Vec<_>>(), [60, 60]);

    let (code, stdout, stderr) = app.command(&["replay", "--expect-unchanged"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(figures(&stdout, "observations"), ["120", "120", "+0"]);
    assert_eq!(table(&app).await, whole);

    // One shard is lost: what was on it comes back, and the other has nothing twice.
    let database = &app.stores.clickhouse.clickhouse_database;
    let second = stores::clickhouse_shards(&app.stores.clickhouse).unwrap().remove(1);
    second.query("TRUNCATE TABLE observations").execute().await.unwrap();
    let (code, stdout, stderr) = app.command(&["replay"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(figures(&stdout, "observations"), ["60", "120", "+60"]);
    assert_eq!(table(&app).await, whole);

    let (code, _, stderr) = app.command(&["rebuild"]).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("observations holds "), "{stderr}");
    // One shard has nothing left, and the other what was said of a log that was longer.
    let shards = stores::clickhouse_shards(&app.stores.clickhouse).unwrap();
    shards[0].query(&format!("DROP DATABASE {database} SYNC")).execute().await.unwrap();
    for statement in ["DROP TABLE observations SYNC", "INSERT INTO high_watermarks VALUES (0, 1000000)"] {
        shards[1].query(statement).execute().await.unwrap();
    }
    let (code, stdout, stderr) = app.command(&["rebuild"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(figures(&stdout, "observations"), ["0", "120", "+120"]);
    assert_eq!(table(&app).await, whole);
    assert_indexed_once(&app, 120).await;
    assert_eq!(watermarks(&app).await, [["(0,8)", "(1,7)", "(2,7)", "(3,7)", "(4,6)", "(5,6)"]; SHARDS]);
}
