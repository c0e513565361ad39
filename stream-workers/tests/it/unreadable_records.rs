//! C8: a record that can't be read becomes a dead letter, and its neighbors are stored. Records that crash the process are tested in
//! writer.rs.

use crate::test_app::{NEW_YEAR_US, Workers, event, record};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rdkafka::admin::{AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::producer::FutureRecord;
use serde_json::json;
use service_kit::kafka;
use service_kit::testing::{DeadLetter, eventually};
use std::time::Instant;

#[tokio::test(flavor = "multi_thread")]
async fn poison_record_becomes_one_dead_letter() {
    let app = Workers::start().await;
    let good = |n: u128| record(1, NEW_YEAR_US, &[event(n)]).to_string().into_bytes();
    let newer = record(1, NEW_YEAR_US, &[event(90)]).to_string().replacen("\"v\":1", "\"v\":999", 1);
    let early = record(1, -1, &[event(91)]).to_string();
    let far_future = record(1, NEW_YEAR_US, &[event(92)]).to_string().replace("1767225600000,", "99999999999999,");
    assert!(newer.contains("\"v\":999") && far_future.contains("99999999999999"), "the poison records are invalid");
    let poison: [(&[u8], &str); 6] = [
        (&[0xff, 0x00, 0xfe, b'{'], "not a record"),
        (b"", "not a record"),
        (b"{\"v\":1}", "not a record"),
        (newer.as_bytes(), "version 999"),
        (early.as_bytes(), "received_at_us -1"),
        (far_future.as_bytes(), "at_ms 99999999999999"),
    ];

    let worker = app.worker();
    let mut expected = Vec::new();
    for (n, (bytes, reason)) in (0_u128..).zip(poison) {
        app.log.put(0, &good(2 * n)).await;
        expected.push((app.log.put(0, bytes).await, bytes.to_vec(), reason));
        app.log.put(0, &good(2 * n + 1)).await;
    }
    let put = Instant::now();
    eventually("every neighbour is visible", || async { (app.visible().await.len() == 12).then_some(()) }).await;
    eprintln!("C8: all neighbours of {} poison records are visible {:?} after the last was put", expected.len(), put.elapsed());
    app.caught_up().await;
    worker.stop().await;

    expected.sort();
    let letters = app.log.dead_letters().await;
    assert_eq!(letters.len(), expected.len(), "{letters:?}");
    for (DeadLetter { origin, payload, reason }, (expected_origin, bytes, why)) in letters.iter().zip(&expected) {
        assert_eq!((origin, payload), (expected_origin, bytes));
        assert!(reason.contains(why), "{reason}");
    }
}

/// F21: a record of any size that the log accepted is rejected: whole if the other topic accepts it, otherwise its head.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_poison_records_of_any_size() {
    const BYTES: usize = 10 * 1024 * 1024;
    let app = Workers::start().await;
    let kafka = &app.stores.kafka;
    let admin = kafka::admin(kafka).unwrap();
    let larger = AlterConfig::new(ResourceSpecifier::Topic(&kafka.topic)).set("max.message.bytes", "20000000");
    admin.alter_configs(&[larger], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
    let producer = kafka::producer_of_any_size(kafka).unwrap();
    let put = async |payload: &[u8]| {
        let record = FutureRecord::<(), [u8]>::to(&kafka.topic).partition(1).payload(payload);
        producer.send_result(record).unwrap().await.unwrap().unwrap().offset
    };
    let (mut packs, mut random) = (vec![b'x'; BYTES], vec![0; BYTES]);
    packs[0] = b'{';
    StdRng::seed_from_u64(21).fill(random.as_mut_slice());
    app.put(&[(1, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    let places = [put(&packs).await, put(&random).await];
    app.put(&[(1, record(1, NEW_YEAR_US, &[event(2)]))]).await;
    app.process_all().await;

    assert_eq!(app.visible().await, ["event-000001", "event-000002"]);
    let letters = app.log.dead_letters().await;
    let [whole, head] = letters.as_slice() else { panic!("{} letters", letters.len()) };
    assert_eq!(whole.origin, format!("{}/1/{}", kafka.topic, places[0]));
    assert!(whole.payload == packs && whole.reason.starts_with("not a record"), "{}", whole.reason);
    assert_eq!(head.origin, format!("{}/1/{}", kafka.topic, places[1]));
    assert!(!head.payload.is_empty() && random.starts_with(&head.payload));
    assert!(head.reason.starts_with("only the first 1048576 of 10485760 bytes are stored: not a record"), "{}", head.reason);
    let (code, stdout, _) = app.command(&["rejected", "retry", &head.origin]).await;
    assert!(code == Some(1) && stdout.contains("refused"), "{stdout}");
}

/// F21: a dead letter that can't be written blocks its partition, because otherwise its record would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn waits_until_dead_letters_can_be_written() {
    let app = Workers::start().await;
    let mut worker = app.process().await;
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    app.caught_up().await;
    let admin = kafka::admin(&app.stores.kafka).unwrap();
    let letters = app.stores.kafka.rejected_topic.as_str();
    admin.delete_topics(&[letters], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
    let origin = app.log.put(0, b"poison").await;
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(2)]))]).await;
    eventually("the worker logs that it waits", || async {
        worker.stderr().contains("failed to send a dead letter, retrying").then_some(())
    })
    .await;
    assert_eq!(app.not_stored().await, 2);
    kafka::create_topics(&app.stores.kafka).await.unwrap();
    app.caught_up().await;
    assert_eq!(app.visible().await, ["event-000001", "event-000002"]);
    let found: Vec<String> = app.log.dead_letters().await.into_iter().map(|letter| letter.origin).collect();
    assert!(!found.is_empty() && found.iter().all(|found| *found == origin), "{found:?}");
    assert_eq!(worker.terminate().await, Some(0));
}

/// F22: decoding a record panics.
#[tokio::test(flavor = "multi_thread")]
async fn survives_a_record_that_panics() {
    let app = Workers::start().await;
    let mut worker = app.process().await;
    let mut bad = event(2);
    bad["data"] = json!("deadly-record:panic");
    let poison = record(1, NEW_YEAR_US, &[bad]).to_string();
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    let origin = app.log.put(0, poison.as_bytes()).await;
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(3)]))]).await;
    app.caught_up().await;
    assert_eq!(app.visible().await, ["event-000001", "event-000003"]);
    let letters = app.log.dead_letters().await;
    let [letter] = letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!((letter.origin.as_str(), letter.payload.as_slice()), (origin.as_str(), poison.as_bytes()));
    assert!(letter.reason.contains("panicked"), "{}", letter.reason);
    assert!(worker.stderr().contains("the record requested a panic"), "the log has no panic message");
    assert_eq!(worker.terminate().await, Some(0), "the worker did not keep running");
}
