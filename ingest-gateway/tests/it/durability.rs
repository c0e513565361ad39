//! A 2xx is sent only after the broker's acknowledgement or the fsync in the spill. Tested with a real broker that is stopped.

use crate::outage_harness::{OutageFixture, is_spilled};
use service_kit::testing::eventually;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn e17_accepted_events_are_durable() {
    let mut site = OutageFixture::new().await;
    let gateway = site.start(&[]).await;
    assert_eq!(gateway.sender.post("up").await.status, 201);
    assert!(site.ids().await.contains(&"up".to_owned()), "it is on the log while the broker is up");
    assert!(!is_spilled(&site.spill(), "up"), "it was not spilled");

    site.broker().pause();
    for id in ["first-while-paused", "second-while-paused"] {
        assert_eq!(gateway.sender.post(id).await.status, 201);
        assert!(is_spilled(&site.spill(), id), "{id} is in the spill before the response");
    }
    site.broker().resume();
    site.drained().await;
    site.kill_broker().await;
    for id in ["first-while-dead", "second-while-dead"] {
        assert_eq!(gateway.sender.post(id).await.status, 201);
        assert!(is_spilled(&site.spill(), id), "{id} is in the spill before the response");
    }
    site.restart_broker().await;
    site.drained().await;
    let ids = site.ids().await;
    for id in ["first-while-paused", "second-while-paused", "first-while-dead", "second-while-dead"] {
        assert!(ids.contains(&id.to_owned()), "{id} is on the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_writes_if_broker_and_spill_are_unavailable() {
    let mut site = OutageFixture::new().await;
    let gateway = site.start(&[("TELEMETRY_SPILL_MAX_BYTES", "0")]).await;
    gateway.sender.post_until_acknowledged("up").await;

    site.kill_broker().await;
    assert_eq!(gateway.sender.post("first").await.status, 503, "after the wait for the acknowledgement");
    let refused = gateway.sender.post("second").await;
    assert_eq!((refused.status, refused.says_when), (503, true));
    assert!(refused.took < Duration::from_secs(3), "the response took {:?}", refused.took);
    let ready = service_kit::testing::client().get(format!("{}/ready", gateway.url)).send().await.unwrap();
    assert_eq!(ready.status(), 503);

    site.restart_broker().await;
    eventually("the gateway recovers without a restart", || async {
        (gateway.sender.post("after").await.status == 201).then_some(())
    })
    .await;
    assert!(site.ids().await.contains(&"after".to_owned()));
}
