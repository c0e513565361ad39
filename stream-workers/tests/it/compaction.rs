//! Workers keep the index of the reads small, one of them at a time, whichever dies; and what a worker stores is in the index.

use crate::test_app::{NEW_YEAR_US, TestApp, event, record};
use serde_json::Value;
use service_kit::retrieval_index::Compactor;
use service_kit::testing::eventually;

/// The delta is empty.
async fn is_compacted(app: &TestApp) {
    let compactor = Compactor::connect(&app.stores.clickhouse).unwrap();
    eventually("everything is compacted", || async { compactor.parts().await.ok()?.is_empty().then_some(()) }).await;
}

/// Retrievals and reports, by the base of the index.
async fn indexed(app: &TestApp) -> (u64, u64) {
    let base = "SELECT count(), sum(1 + length(others)) FROM retrieval_index FINAL WHERE tier = 'base' AND site != ''";
    app.clickhouse.query(base).fetch_one().await.unwrap()
}

/// The same by the observations.
async fn stored(app: &TestApp) -> (u64, u64) {
    let rows =
        "SELECT uniqExact(site, event_key), uniqExact(site, event_key, org_id, observer) FROM observations WHERE site != ''";
    app.clickhouse.query(rows).fetch_one().await.unwrap()
}

/// A retrieval that observers report together.
fn seen_by_several(key: u128) -> Value {
    let mut event = event(key);
    event["correlation_key"] = event["own_key"].clone();
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_compact_what_they_store_and_another_goes_on_where_one_was_killed() {
    let app = TestApp::new().await;
    let (mut first, mut second) = (app.process().await, app.process().await);
    for round in 0..4_u128 {
        let events: Vec<_> = (round * 20..round * 20 + 40).map(seen_by_several).collect();
        let records: Vec<_> =
            (0..6).map(|part| (part, record(1 + part as u128 % 2, NEW_YEAR_US + i64::from(part), &events))).collect();
        app.put(&records).await;
        if round == 1 {
            first.kill_9().await;
        }
    }
    app.log.caught_up(&app.group()).await;
    is_compacted(&app).await;
    assert_eq!(indexed(&app).await, stored(&app).await);
    assert_eq!(stored(&app).await, (100, 200));
    assert_eq!(second.terminate().await, Some(0));
    // What nobody has compacted yet is compacted by whoever comes next.
    let rows = "INSERT INTO observations (site, event_key, version) SELECT 'com.example', 1000 + number, 1 FROM numbers(50)";
    app.clickhouse.query(rows).execute().await.unwrap();
    let mut third = app.process().await;
    is_compacted(&app).await;
    assert_eq!(indexed(&app).await, stored(&app).await);
    assert_eq!(third.terminate().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_makes_the_index_anew_and_leaves_nothing_of_before_in_it() {
    let app = TestApp::new().await;
    let rows = "INSERT INTO observations (site, event_key, version) SELECT 'com.example', 1000 + number, 1 FROM numbers(50)";
    app.clickhouse.query(rows).execute().await.unwrap();
    app.clickhouse.query("TRUNCATE TABLE observations").execute().await.unwrap();
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(1), event(2)]))]).await;
    let (code, _, stderr) = app.command(&["rebuild"]).await;
    assert_eq!(code, Some(0), "{stderr}");
    Compactor::connect(&app.stores.clickhouse).unwrap().compact_all().await.unwrap();
    assert_eq!((indexed(&app).await, stored(&app).await), ((2, 2), (2, 2)));
}
