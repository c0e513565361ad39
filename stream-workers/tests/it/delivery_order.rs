//! The order of deliveries when more are due than there are lanes: the organization with the fewest running attempts is next, whatever the
//! others' backlog (V12).

use crate::delivery_fixture::DeliveryFixture;
use crate::recording_receiver::RecordingReceiver;
use service_kit::testing::eventually;
use std::time::Duration;

async fn taking_a_second(office: &DeliveryFixture) -> RecordingReceiver {
    RecordingReceiver::open_with(office, |_| async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        204
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn v12_floods_delay_only_their_organization() {
    let office = DeliveryFixture::new().await;
    let flooded = RecordingReceiver::open(&office, |_| Some(204)).await;
    let inbox = RecordingReceiver::open(&office, |_| Some(204)).await;
    let flooder = office.org().await;
    for _ in 0..10 {
        office.enqueue_all(&office.endpoint_of(flooder, &flooded.server).await, 60).await;
    }
    let other = office.endpoint(&inbox.server).await;
    let ids = office.enqueue_all(&other, 4).await;
    let deliverer = office.deliverer_with(|settings| settings.pace.deliveries_at_once = 6);
    office.wait_until_delivered(&ids).await;
    let before = flooded.requests().len();
    assert!(before < 300, "{before} of 600 of the flood went before four of another organization that came later");
    deliverer.stop().await;
}

/// There are more organizations with slow receivers and old backlogs than lanes. An organization without running attempts is
/// next.
#[tokio::test(flavor = "multi_thread")]
async fn v12_prefers_organizations_with_fewer_running_attempts() {
    let office = DeliveryFixture::new().await;
    let slow = taking_a_second(&office).await;
    let inbox = RecordingReceiver::open(&office, |_| Some(204)).await;
    for _ in 0..8 {
        office.enqueue_all(&office.endpoint(&slow.server).await, 20).await;
    }
    let deliverer = office.deliverer_with(|settings| settings.pace.deliveries_at_once = 4);
    eventually("slow endpoints are attempted", || async { (slow.server.connects() >= 8).then_some(()) }).await;
    let healthy = office.endpoint(&inbox.server).await;
    office.enqueue(&healthy).await;
    inbox.wait_for(1).await;
    let tried = slow.server.connects();
    assert!(tried < 100, "it waited behind {tried} of 160 older deliveries");
    deliverer.stop().await;
}

/// Nine of an organization's endpoints have hung once and get no deliveries now. Its tenth endpoint is healthy, and others have more
/// deliveries than there are lanes.
#[tokio::test(flavor = "multi_thread")]
async fn v12_past_hangs_do_not_delay_later_deliveries() {
    let office = DeliveryFixture::new().await;
    let hanging = office.hanging().await;
    let slow = taking_a_second(&office).await;
    let inbox = RecordingReceiver::open(&office, |_| Some(204)).await;
    let org = office.org().await;
    let mut once = Vec::new();
    for _ in 0..9 {
        once.push(office.enqueue(&office.endpoint_of(org, &hanging).await).await);
    }
    let deliverer = office.deliverer_with(|settings| settings.pace.deliveries_at_once = 9);
    for id in once {
        office.wait_for_state("it has hung", id, |standing| standing.attempts == 1).await;
    }
    for _ in 0..2 {
        for _ in 0..4 {
            office.enqueue_all(&office.endpoint(&slow.server).await, 30).await;
        }
    }
    eventually("the others are attempted", || async { (slow.server.connects() >= 9).then_some(()) }).await;
    office.enqueue(&office.endpoint_of(org, &inbox.server).await).await;
    inbox.wait_for(1).await;
    let tried = slow.server.connects();
    assert!(tried < 120, "it waited behind {tried} of 240");
    deliverer.stop().await;
}

/// The test asserts the order: healthy endpoints get their deliveries before the first hanging attempt times out.
#[tokio::test(flavor = "multi_thread")]
async fn s6_hanging_endpoints_do_not_delay_healthy_ones() {
    let office = DeliveryFixture::new().await;
    let hanging = office.hanging().await;
    let inbox = RecordingReceiver::open(&office, |_| Some(204)).await;
    let org = office.org().await;
    for _ in 0..100 {
        office.enqueue_all(&office.endpoint_of(org, &hanging).await, 6).await;
    }
    let mut healthy = Vec::new();
    for _ in 0..10 {
        healthy.push(office.endpoint_of(org, &inbox.server).await);
    }
    let deliverer = office.deliverer();
    eventually("the hanging ones hang", || async { (hanging.connects() >= 400).then_some(()) }).await;
    for endpoint in &healthy {
        office.enqueue(endpoint).await;
    }
    inbox.wait_for(healthy.len()).await;
    assert_eq!((office.given_up().await, hanging.connects()), (0, 400), "a healthy endpoint waited for a hanging one");
    drop(deliverer);
}
