//! Figures for deliveries dropped from full queues (V12).

use crate::delivery_fixture::{DeliveryFixture, Endpoint};
use service_kit::testing::TestReceiver;
use std::time::Duration;
use stream_workers::deliver::{ClockOffset, DroppedFigures};
use uuid::Uuid;

/// Adds a message for an endpoint whose queue has room for one message.
async fn post(office: &DeliveryFixture, to: &Endpoint) -> Uuid {
    let mut transaction = office.pool.begin().await.unwrap();
    sqlx::query("SELECT set_config('telemetry.webhook_pending', '1', true)").execute(&mut *transaction).await.unwrap();
    let id = office.enqueue_in(&mut *transaction, to).await;
    transaction.commit().await.unwrap();
    id
}

#[tokio::test]
async fn counts_dropped_deliveries_for_an_hour() {
    let office = DeliveryFixture::new().await;
    let receiver = TestReceiver::canary().await;
    let ahead = ClockOffset::default();
    let counted = async || {
        let DroppedFigures { deliveries, organizations } = DroppedFigures::read(&office.pool, &ahead).await.unwrap();
        (deliveries, organizations)
    };
    let (one, other) = (office.endpoint(&receiver).await, office.endpoint(&receiver).await);
    let first = post(&office, &one).await;
    assert_eq!(counted().await, (0, 0), "there was room");
    let dropped = post(&office, &one).await;
    assert_eq!(office.delivery_state(dropped).await.status, "dropped");
    post(&office, &one).await;
    assert_eq!(counted().await, (2, 1));
    post(&office, &other).await;
    post(&office, &other).await;
    assert_eq!(counted().await, (3, 2));

    let ended = "UPDATE webhook_queue SET status = 'delivered', ended_at = now() WHERE delivery_id = $1";
    sqlx::query(ended).bind(first).execute(&office.pool).await.unwrap();
    let wish = "INSERT INTO webhook_redeliveries (delivery_id, created_at) VALUES ($1, now())";
    sqlx::query(wish).bind(dropped).execute(&office.pool).await.unwrap();
    assert_eq!(counted().await, (2, 2), "one was requested again");
    office.disable(&one).await;
    let deliverer = office.deliverer();
    office.wait_for_state("it is dropped with its endpoint", dropped, |standing| standing.status == "dropped").await;
    deliverer.stop().await;
    assert_eq!(counted().await, (2, 2), "deliveries of a disabled endpoint are not counted");
    ahead.advance(Duration::from_secs(3_601));
    assert_eq!(counted().await, (0, 0), "an hour later");
}
