//! Invariant 1: a 2xx is not sent before the broker's acknowledgement or, while it does not come, the fsync in the spill.
//! Tested on a real broker that is stopped.

use crate::outage_harness::{Site, is_spilled};
use service_kit::testing::eventually;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn e17_a_2xx_means_durable() {
    let mut site = Site::new().await;
    let gateway = site.start(&[]).await;
    assert_eq!(gateway.sender.post("up").await.status, 201);
    assert!(site.ids().await.contains(&"up".to_owned()), "with the broker up it is on the log");
    assert!(!is_spilled(&site.spill(), "up"), "and was never spilled");

    site.broker().pause();
    for id in ["first-while-paused", "second-while-paused"] {
        assert_eq!(gateway.sender.post(id).await.status, 201);
        assert!(is_spilled(&site.spill(), id), "{id} is in the spill before the answer");
    }
    site.broker().resume();
    site.drained().await;
    site.kill_broker().await;
    for id in ["first-while-dead", "second-while-dead"] {
        assert_eq!(gateway.sender.post(id).await.status, 201);
        assert!(is_spilled(&site.spill(), id), "{id} is in the spill before the answer");
    }
    site.restart_broker().await;
    site.drained().await;
    let ids = site.ids().await;
    for id in ["first-while-paused", "second-while-paused", "first-while-dead", "second-while-dead"] {
        assert!(ids.contains(&id.to_owned()), "{id} is on the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_spill_nothing_is_promised_while_the_broker_is_away() {
    let mut site = Site::new().await;
    let gateway = site.start(&[("TELEMETRY_SPILL_MAX_BYTES", "0")]).await;
    gateway.sender.post_until_acknowledged("up").await;

    site.kill_broker().await;
    assert_eq!(gateway.sender.post("first").await.status, 503, "once the log has not acknowledged in time");
    let refused = gateway.sender.post("second").await;
    assert_eq!((refused.status, refused.says_when), (503, true));
    assert!(refused.took < Duration::from_secs(3), "answered after {:?}", refused.took);
    let ready = service_kit::testing::client().get(format!("{}/ready", gateway.url)).send().await.unwrap();
    assert_eq!(ready.status(), 503);

    site.restart_broker().await;
    eventually("the gateway recovers without a restart", || async {
        (gateway.sender.post("after").await.status == 201).then_some(())
    })
    .await;
    assert!(site.ids().await.contains(&"after".to_owned()));
}
