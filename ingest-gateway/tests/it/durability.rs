//! Invariant 1: a 2xx is not sent before the broker's acknowledgement. Tested by stopping a real broker.

use crate::harness::{Gateway, retrieval};
use local::private::Kafka;
use schemas::identity::OrgType;
use serde_json::json;
use service_kit::settings::KafkaSettings;
use service_kit::testing::TestStores;
use std::time::Duration;

/// A gateway on a broker of its own.
async fn gateway_and_broker(folder: &std::path::Path) -> (Gateway, Kafka) {
    let stores = TestStores::fresh().await;
    let folder = folder.to_owned();
    let broker = tokio::task::spawn_blocking(move || Kafka::start(&folder))
        .await
        .expect("starting does not panic")
        .expect("a broker starts");
    let kafka = KafkaSettings { kafka_brokers: broker.address(), ..stores.kafka.clone() };
    service_kit::kafka::create_topics(&kafka).await.expect("the topics are created");
    (Gateway::start_on(stores, kafka).await, broker)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_2xx_means_durable() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, mut broker) = gateway_and_broker(folder.path()).await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
    let body = json!({"events": [retrieval("https://a.test/")]});
    assert_eq!(gateway.post(&key, &body).await.status, 201, "with the broker up");

    broker.pause();
    let mut waiting = Box::pin(gateway.post(&key, &body));
    let early = tokio::time::timeout(Duration::from_secs(2), &mut waiting).await;
    assert!(early.is_err(), "answered {} while the broker stood still", early.map(|answer| answer.status).unwrap_or_default());
    broker.resume();
    assert_eq!(waiting.await.status, 201, "once the broker went on");

    broker.kill_9();
    let refused = gateway.post(&key, &body).await;
    assert_eq!((refused.status, refused.body["code"].as_str()), (503, Some("unavailable")), "with the broker dead");
    assert!(refused.headers.contains_key("retry-after"));

    let broker = tokio::task::spawn_blocking(move || broker.restart().map(|()| broker)).await.unwrap().unwrap();
    service_kit::testing::eventually("the gateway recovers without a restart", || async {
        (gateway.post(&key, &body).await.status == 201).then_some(())
    })
    .await;
    drop(broker);
}
