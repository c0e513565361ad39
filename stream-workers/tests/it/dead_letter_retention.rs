//! Tests the retention of dead letters. `retention_deletes_events_completely` tests that of events.

use crate::test_app::{TestApp, Workers};
use service_kit::kafka::{self, Retention};
use service_kit::testing::eventually;
use std::time::Duration;
use stream_workers::{RetentionSettings, prepare};

const DAY: Duration = Duration::from_secs(86_400);

async fn prepared(app: &TestApp, rejected_keep: Option<u32>) {
    let mut settings = app.settings();
    settings.keep = RetentionSettings { rejected_keep, events_keep: None };
    prepare(&settings).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn prepare_sets_the_retention_of_dead_letters() {
    let app = Workers::start().await;
    let kafka = &app.stores.kafka;
    let kept = async || kafka::retention(kafka, &kafka.rejected_topic).await.unwrap();
    assert_eq!(kept().await, Retention::ForEver);
    prepared(&app, Some(30)).await;
    eventually("the broker applies the setting", || async { (kept().await == Retention::For(DAY * 30)).then_some(()) }).await;
    prepared(&app, None).await;
    assert_eq!(kept().await, Retention::For(DAY * 30), "without a setting, it stays unchanged");
    kafka::check_topics(kafka).await.expect("the topic still accepts the largest letter");
    assert_eq!(kafka::retention(kafka, &kafka.topic).await.unwrap(), Retention::ForEver, "the log's retention stays");
}
