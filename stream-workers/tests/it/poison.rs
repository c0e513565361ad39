//! C8: what no worker can read is set aside whole, and holds nobody up.

use crate::world::{NEW_YEAR_US, World, event, record};
use service_kit::testing::{SetAside, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_record_among_good_ones_becomes_one_dead_letter() {
    let world = World::new().await;
    let good = |n: u128| record(1, NEW_YEAR_US, &[event(n)]).to_string().into_bytes();
    let newer = record(1, NEW_YEAR_US, &[event(90)]).to_string().replacen("\"v\":1", "\"v\":3", 1);
    let early = record(1, -1, &[event(91)]).to_string();
    let far_future = record(1, NEW_YEAR_US, &[event(92)]).to_string().replace("1767225600000,", "99999999999999,");
    assert!(newer.contains("\"v\":3") && far_future.contains("99999999999999"), "the poison is poisonous");
    let poison: [(&[u8], &str); 6] = [
        (&[0xff, 0x00, 0xfe, b'{'], "not a record"),
        (b"", "not a record"),
        (b"{\"v\":1}", "not a record"),
        (newer.as_bytes(), "version 3"),
        (early.as_bytes(), "received_at_us -1"),
        (far_future.as_bytes(), "at_ms 99999999999999"),
    ];

    let worker = world.worker();
    let mut expected = Vec::new();
    for (n, (bytes, reason)) in (0_u128..).zip(poison) {
        world.log.put(0, &good(2 * n)).await;
        expected.push((world.log.put(0, bytes).await, bytes.to_vec(), reason));
        world.log.put(0, &good(2 * n + 1)).await;
    }
    eventually("every neighbour is visible", || async { (world.visible().await.len() == 12).then_some(()) }).await;
    world.log.caught_up(&world.group()).await;
    worker.stop().await;

    expected.sort();
    let letters = world.log.set_aside().await;
    assert_eq!(letters.len(), expected.len(), "{letters:?}");
    for (SetAside { origin, payload, reason }, (expected_origin, bytes, why)) in letters.iter().zip(&expected) {
        assert_eq!((origin, payload), (expected_origin, bytes));
        assert!(reason.contains(why), "{reason}");
    }
}

/// A JSON record with a defect anywhere inside is set aside whole: a batch is visible whole or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn one_bad_event_keeps_its_whole_record_out() {
    let world = World::new().await;
    let mut bad = event(2);
    bad["key"] = serde_json::json!("not hexadecimal");
    world.put(&[(0, record(1, NEW_YEAR_US, &[event(1), bad, event(3)])), (0, record(1, NEW_YEAR_US, &[event(4)]))]).await;
    world.work_off(&world.group()).await;
    assert_eq!(world.visible().await, ["event-000004"]);
    assert_eq!(world.log.set_aside().await.len(), 1);
}
