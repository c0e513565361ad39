//! The index that the reads of content owners count from: every report is in it with the insert that stores it, and compactions
//! change where it lies and no figure, whoever runs them and wherever they end.

mod accounts;
mod chain;
mod crashes;
mod fill;
mod histories;
mod oracle;

use oracle::Store;
use service_kit::retrieval_index::Attempt;

/// Two reports on example.com.
const TWO: &str = "INSERT INTO observations (site, event_key, org_id, version) VALUES \
    ('com.example', 1, toUUID('00000000-0000-0000-0000-000000000001'), 1), \
    ('com.example', 2, toUUID('00000000-0000-0000-0000-000000000001'), 1)";

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_that_the_view_cannot_take_is_refused_and_its_retry_completes_it_once() {
    let store = Store::fresh().await;
    for table in ["observations", "retrieval_index"] {
        store.run(&format!("SYSTEM STOP MERGES {table}")).await;
    }
    let insert = async || store.admin.query(TWO).with_setting("insert_deduplication_token", "block").execute().await;
    store.run("ALTER TABLE retrieval_index ADD CONSTRAINT full CHECK site = ''").await;
    assert!(insert().await.unwrap_err().to_string().contains("while pushing to view"));
    let counts = async || (store.count("observations").await, store.count("retrieval_index").await);
    assert_eq!(counts().await, (2, 0), "an observation is there no later than its row of the index");
    store.run("ALTER TABLE retrieval_index DROP CONSTRAINT full").await;
    for _ in 0..3 {
        insert().await.unwrap();
        assert_eq!(counts().await, (2, 2));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_own_is_not_in_the_index() {
    let store = Store::fresh().await;
    store.run("INSERT INTO observations (site, event_key, version) VALUES ('', 1, 1), ('com.example', 2, 1), ('', 3, 1)").await;
    assert_eq!((store.count("observations").await, store.count("retrieval_index").await), (3, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_reported_for_a_second_host_after_it_was_compacted_stays_one_retrieval() {
    let store = Store::fresh().await;
    for site in ["com.a", "com.a.blog", "com.a.shop"] {
        let report = "INSERT INTO observations (site, event_key, version, event_type, at) VALUES";
        store.run(&format!("{report} ('{site}', 1, 1, 'content_retrieved', '2026-11-05 00:00:00')")).await;
        store.compactor.compact_all().await.unwrap();
        store.agrees(site).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_compacted_stays_out_of_every_figure() {
    let store = Store::fresh().await;
    let report = "INSERT INTO observations (site, event_key, version, event_type, at, org_id) VALUES";
    for (key, kind, org) in [(1, "turn_started", 1), (2, "content_retrieved", 1), (2, "turn_completed", 2)] {
        let org = format!("toUUID('00000000-0000-0000-0000-00000000000{org}')");
        store.run(&format!("{report} ('com.a', {key}, 1, '{kind}', '2026-11-05 00:00:00', {org})")).await;
        store.compactor.compact_all().await.unwrap();
        store.agrees(kind).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_that_lacks_the_memory_for_its_keys_takes_half_of_them_at_a_time() {
    let store = Store::fresh().await;
    let long = "INSERT INTO observations (site, event_key, version, event_type, at, content_url) \
        SELECT 'com.a', cityHash64(number), 1, 'content_retrieved', toDateTime64('2026-11-05 00:00:00', 3), \
          concat('https://a.com/', toString(number), '/', randomPrintableASCII(4000)) FROM numbers(20000)";
    store.run(long).await;
    let parts = store.compactor.parts().await.unwrap();
    let compactor = store.compactor.clone().with_memory(200_000_000);
    let refused = compactor.attempt(0, &parts, 0..=u64::MAX).await.unwrap_err().to_string();
    assert!(refused.contains("Query memory limit"), "{refused}");
    compactor.compact_all().await.unwrap();
    assert!(store.compactor.epoch().await.unwrap() > 1, "it took several attempts");
    assert_eq!(store.compactor.parts().await.unwrap(), []);
    store.agrees("compacted by halves").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compactions_move_every_report_into_the_base_and_repeats_of_it_change_nothing() {
    let store = Store::fresh().await;
    let mut seed = 1;
    while seed < 4 {
        store.insert(300, seed, 200).await;
        store.compactor.compact_all().await.unwrap();
        assert_eq!(store.compactor.parts().await.unwrap(), []);
        store.agrees("compacted").await;
        let base = store.base().await;
        store.insert(300, seed, 200).await;
        let parts = store.compactor.parts().await.unwrap();
        let epoch = store.compactor.epoch().await.unwrap();
        let attempt = store.compactor.attempt(epoch, &parts, 0..=u64::MAX).await.unwrap();
        assert_eq!(attempt, Attempt::Covered { written: 0 }, "what the base has already changes none of its rows");
        assert_eq!(store.base().await, base);
        seed += 1;
    }
}
