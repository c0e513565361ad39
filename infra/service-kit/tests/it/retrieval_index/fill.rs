//! `prepare` fills an index that was dropped, and no process reads from it before it is complete.

use super::oracle::{Store, reports_of};
use schemas::store::CLICKHOUSE_DDL;
use service_kit::retrieval_index::STEP_ROWS;
use service_kit::stores;
use service_kit::testing::eventually;

/// Observations without an index.
async fn store_without_index() -> Store {
    let store = Store::fresh().await;
    store.run("DROP VIEW retrieval_index_delta SYNC").await;
    store.run("DROP TABLE retrieval_index SYNC").await;
    for seed in 0..5 {
        store.run(&reports_of(500, seed, 700)).await;
    }
    // Nobody can own these.
    store.run("INSERT INTO observations (site, event_key, version) SELECT '', number, 1 FROM numbers(100)").await;
    store
}

async fn refusal(store: &Store) -> String {
    stores::check_clickhouse(&store.settings).await.unwrap_err().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn incomplete_index_is_refused_until_filled() {
    let store = store_without_index().await;
    assert!(refusal(&store).await.contains("retrieval_index does not exist: create it with `telemetry stream-workers prepare`"));
    // Ended right after the tables were made.
    for statement in CLICKHOUSE_DDL {
        store.run(statement).await;
    }
    assert!(refusal(&store).await.contains("does not have every observation yet; run `telemetry stream-workers prepare`"));
    // A running worker inserts meanwhile.
    store.insert(400, 77, 700).await;
    stores::apply_clickhouse_ddl(&store.settings).await.unwrap();
    stores::check_clickhouse(&store.settings).await.unwrap();
    store.agrees("filled").await;
    store.insert(400, 78, 700).await;
    store.agrees("and after one more insert").await;
    let rows = store.count("retrieval_index").await;
    stores::apply_clickhouse_ddl(&store.settings).await.unwrap();
    assert_eq!(store.count("retrieval_index").await, rows, "what is complete is not filled again");
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_fill_counts_nothing_twice() {
    let store = store_without_index().await;
    stores::apply_clickhouse_ddl(&store.settings).await.unwrap();
    let base = store.base().await;
    for _ in 0..2 {
        store.run("ALTER TABLE retrieval_index MODIFY COMMENT ''").await;
        stores::apply_clickhouse_ddl(&store.settings).await.unwrap();
        assert_eq!(store.base().await, base);
    }
    store.agrees("filled three times").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fill_waits_for_inserts_from_before_the_view() {
    let store = store_without_index().await;
    // Three seconds, and then all of its rows at once; no view is fed by it.
    let slow = "INSERT INTO observations (site, event_key, version, event_type) \
        SELECT 'com.a', 1000000 + number, 1, 'content_retrieved' FROM numbers(30) WHERE NOT sleepEachRow(0.1)";
    let admin = store.admin.clone().with_setting("max_block_size", "1");
    let inserting = tokio::spawn(async move { admin.query(slow).execute().await });
    eventually("the insert is at work", || async {
        let running = "SELECT count() FROM system.processes WHERE query_kind = 'Insert' AND current_database = currentDatabase()";
        (store.admin.query(running).fetch_one::<u64>().await.unwrap() == 1).then_some(())
    })
    .await;
    stores::apply_clickhouse_ddl(&store.settings).await.unwrap();
    inserting.await.unwrap().unwrap();
    store.agrees("filled").await;
    let slow = "SELECT count() FROM retrieval_index FINAL WHERE tier = 'base' AND key_low BETWEEN 1000000 AND 1000029";
    assert_eq!(store.admin.query(slow).fetch_one::<u64>().await.unwrap(), 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_more_observations_than_one_slice_is_filled_to_the_last_one() {
    let store = Store::fresh().await;
    store.run("DROP VIEW retrieval_index_delta SYNC").await;
    store.run("DROP TABLE retrieval_index SYNC").await;
    // A slice that is compacted in two ranges of keys, and one of a single observation.
    let observations = STEP_ROWS + 2;
    let insert = "INSERT INTO observations (site, event_key, version) SELECT 'com.example', cityHash64(number), 1 FROM numbers";
    store.run(&format!("{insert}({observations})")).await;
    stores::apply_clickhouse_ddl(&store.settings).await.unwrap();
    assert_eq!(store.parts().await, [], "everything is compacted");
    assert_eq!(store.base().await.len() as u64, observations);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_whose_reports_do_not_come_to_the_index_is_refused() {
    let store = Store::fresh().await;
    store.run("DROP VIEW retrieval_index_delta SYNC").await;
    assert!(refusal(&store).await.contains("view retrieval_index_delta of observations does not exist"));
    let store = Store::fresh().await;
    store.run("DROP TABLE retrieval_index SYNC").await;
    let other = CLICKHOUSE_DDL.iter().find(|statement| statement.contains("EXISTS retrieval_index\n")).unwrap();
    store.run(&other.replace("ReplacingMergeTree(revision)", "ReplacingMergeTree")).await;
    assert!(refusal(&store).await.contains("engine or keys are not those of this build"));
}
