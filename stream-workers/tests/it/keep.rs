//! What is kept for how long: the settings end up in the topic and in the table, and what is old leaves.

use crate::test_app::{TestApp, event, record};
use service_kit::clock::Clock;
use service_kit::kafka::{self, Retention};
use service_kit::testing::{TestProcess, eventually, free_address};
use std::time::Duration;
use stream_workers::{Keep, prepare};

const DAY: Duration = Duration::from_secs(86_400);

async fn prepared(app: &TestApp, rejected_keep: Option<u32>, events_keep: Option<u32>) {
    let mut settings = app.settings();
    settings.keep = Keep { rejected_keep, events_keep };
    prepare(&settings).await.unwrap();
}

async fn rule(app: &TestApp) -> String {
    rule_of(app, "observations").await
}

async fn rule_of(app: &TestApp, table: &str) -> String {
    let question = "SELECT extract(create_table_query, 'TTL (.*) SETTINGS') FROM system.tables \
        WHERE database = currentDatabase() AND name = ?";
    app.clickhouse.query(question).bind(table).fetch_one().await.unwrap()
}

/// The retrievals that the index has, once what is old has left it.
async fn indexed(app: &TestApp) -> u64 {
    app.clickhouse.query("OPTIMIZE TABLE retrieval_index FINAL").execute().await.unwrap();
    let keys = "SELECT uniqExact(key_low) FROM retrieval_index WHERE site != ''";
    app.clickhouse.query(keys).fetch_one().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_stay_for_ever_or_as_long_as_is_said_and_nothing_else_of_their_topic_changes() {
    let app = TestApp::new().await;
    let kafka = &app.stores.kafka;
    let kept = async || kafka::retention(kafka, &kafka.rejected_topic).await.unwrap();
    assert_eq!(kept().await, Retention::ForEver);
    prepared(&app, Some(30), None).await;
    eventually("the broker says so", || async { (kept().await == Retention::For(DAY * 30)).then_some(()) }).await;
    prepared(&app, None, None).await;
    assert_eq!(kept().await, Retention::For(DAY * 30), "unsaid, it stays as it is");
    kafka::check_topics(kafka).await.expect("the topic still takes the largest letter");
    assert_eq!(kafka::retention(kafka, &kafka.topic).await.unwrap(), Retention::ForEver, "the log itself is the operator's");
}

#[tokio::test(flavor = "multi_thread")]
async fn observations_leave_after_the_days_that_are_set_and_stay_for_ever_when_none_are() {
    let app = TestApp::new().await;
    prepared(&app, None, None).await;
    assert_eq!(rule(&app).await, "");
    let now = Clock::System.now().timestamp_micros();
    let (old, young) = (now - 40 * 86_400_000_000, now - 20 * 86_400_000_000);
    app.put(&[(0, record(1, old, &[event(1), event(2)])), (0, record(1, young, &[event(3)]))]).await;
    let (listen, metrics) = (free_address().to_string(), free_address().to_string());
    let mut worker = TestProcess::service(&[], &app.environment(&listen, &metrics));
    app.log.caught_up(&app.group()).await;
    assert_eq!(worker.terminate().await, Some(0));
    assert_eq!((app.raw_rows().await, indexed(&app).await), (3, 3));

    prepared(&app, None, Some(30)).await;
    assert!(rule(&app).await.ends_with("+ toIntervalDay(30)"), "{}", rule(&app).await);
    let merge = "OPTIMIZE TABLE observations FINAL";
    eventually("what is older has left", || async {
        app.clickhouse.query(merge).execute().await.ok()?;
        (app.raw_rows().await == 1).then_some(())
    })
    .await;
    eventually("and it has left the index", || async { (indexed(&app).await == 1).then_some(()) }).await;
    service_kit::stores::check_clickhouse(&app.stores.clickhouse).await.expect("the table is still what it must be");
    prepared(&app, None, None).await;
    assert!(rule(&app).await.ends_with("+ toIntervalDay(30)"), "unsaid, it stays as it is");
    prepared(&app, None, Some(0)).await;
    assert_eq!((rule(&app).await, rule_of(&app, "retrieval_index").await), (String::new(), String::new()));
}
