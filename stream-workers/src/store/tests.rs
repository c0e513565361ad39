//! What ClickHouse itself makes of a block: that it takes every row, once, before it answers.

use super::*;
use crate::record::decode::decode;
use crate::record::fold::fold;
use service_kit::testing::{ClickHouseProxy, ClickHouseRequest, TestStores, eventually};

/// Offsets 0 to 9 of the first partition, whatever is in them.
fn offsets() -> Offsets {
    [(0, (0, 9))].into_iter().collect()
}

/// A block of one row for each key, reported by this organisation in this role, and accepted then.
fn block(keys: &[u128], org: u128, role: &str, received_at_us: i64) -> Folded {
    let event = |key: &u128| {
        format!(
            r#"{{"own_key":"{key:032x}","correlation_key":"{key:032x}","type":"content_retrieved","at_ms":1790000000000,"source_role":"{role}","site":"com.example"}}"#
        )
    };
    let (org, events) = (Uuid::from_u128(org), keys.iter().map(event).collect::<Vec<_>>().join(","));
    let record = format!(r#"{{"v":1,"org":"{org}","received_at_us":{received_at_us},"kind":"events","events":[{events}]}}"#);
    fold(ObservationRow::of(decode(record.as_bytes()).unwrap(), (0, 0)))
}

async fn rows(store: &Store) -> u64 {
    store.clients[0].query("SELECT count() FROM observations").fetch_one().await.unwrap()
}

#[tokio::test]
async fn f9_blocks_of_the_same_offsets_with_other_rows_are_all_taken_and_the_same_block_once() {
    let stores = TestStores::fresh().await;
    let store = Store::connect(&stores.clickhouse, Clock::System).unwrap();
    // Merges would make one of repeats.
    store.clients[0].query("SYSTEM STOP MERGES observations").execute().await.unwrap();
    let then = 1_790_000_000_000_000;
    // Each differs from the first in one thing: the key, how many, who, in which role, when.
    let blocks = [
        block(&[1], 1, "edge", then),
        block(&[2], 1, "edge", then),
        block(&[1, 2], 1, "edge", then),
        block(&[1], 2, "edge", then),
        block(&[1], 1, "agent", then),
        block(&[1], 1, "edge", then + 1),
    ];
    let mut taken = 0;
    for block in blocks {
        taken += block.rows.len() as u64;
        store.insert(block.clone(), &offsets()).await;
        assert_eq!(rows(&store).await, taken, "a block that was never there is not dropped");
        store.insert(block, &offsets()).await;
        assert_eq!(rows(&store).await, taken, "a block that is there is not taken again");
    }
}

/// What ClickHouse is asked for a block of three rows, and the store that then has them.
async fn insert_of_three() -> (ClickHouseRequest, Store) {
    let stores = TestStores::fresh().await;
    let proxy = ClickHouseProxy::before(&stores.clickhouse.clickhouse_url, |_| {}).await;
    let settings = ClickHouseSettings { clickhouse_url: proxy.url().to_owned(), ..stores.clickhouse.clone() };
    let store = Store::connect(&settings, Clock::System).unwrap();
    store.insert(block(&[1, 2, 3], 1, "edge", 1_790_000_000_000_000), &offsets()).await;
    let is_insert = |request: &ClickHouseRequest| request.settings.iter().any(|(_, value)| value.starts_with("INSERT INTO"));
    let mut inserts: Vec<_> = proxy.take_requests().into_iter().filter(is_insert).collect();
    assert_eq!(inserts.len(), 1, "a block is one insert: {inserts:?}");
    (inserts.remove(0), Store::connect(&stores.clickhouse, Clock::System).unwrap())
}

#[tokio::test]
async fn f9_a_block_can_be_read_once_its_insert_is_answered_and_no_server_is_let_collect_inserts() {
    let (insert, store) = insert_of_three().await;
    assert_eq!(rows(&store).await, 3);
    // The server of the tests does not collect a block that has a token, so that what is asked is all that tells.
    assert!(insert.settings.contains(&("async_insert".to_owned(), "0".to_owned())), "{insert:?}");
    assert!(insert.settings.iter().any(|(name, token)| name == "insert_deduplication_token" && token.len() == 32), "{insert:?}");
}

#[tokio::test]
async fn f9_no_server_is_let_answer_before_the_index_has_a_block_or_put_it_there_twice() {
    let (insert, _) = insert_of_three().await;
    let defaults = [
        ("deduplicate_blocks_in_dependent_materialized_views", "1"),
        ("materialized_views_ignore_errors", "0"),
        ("parallel_view_processing", "0"),
    ];
    for (name, value) in defaults {
        assert!(insert.settings.contains(&(name.to_owned(), value.to_owned())), "{name}: {insert:?}");
    }
}

#[tokio::test]
async fn f9_a_block_that_the_index_does_not_take_is_repeated_until_both_tables_have_it() {
    let stores = TestStores::fresh().await;
    let store = Store::connect(&stores.clickhouse, Clock::System).unwrap();
    let run = async |statement: &str| store.clients[0].query(statement).execute().await.unwrap();
    run("ALTER TABLE retrieval_index ADD CONSTRAINT full CHECK site = ''").await;
    let offsets = offsets();
    let insert = store.insert(block(&[1, 2], 1, "edge", 1_790_000_000_000_000), &offsets);
    let mend = async {
        eventually("the observations are there", || async { (rows(&store).await == 2).then_some(()) }).await;
        run("ALTER TABLE retrieval_index DROP CONSTRAINT full").await;
    };
    tokio::join!(insert, mend);
    let indexed: u64 = store.clients[0].query("SELECT count() FROM retrieval_index").fetch_one().await.unwrap();
    assert_eq!((rows(&store).await, indexed), (2, 2));
}
