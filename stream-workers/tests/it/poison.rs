//! C8: what no worker can read is set aside whole, and holds nobody up.

use crate::scrape::series;
use crate::test_app::{NEW_YEAR_US, PARTITIONS, TestApp, event, record};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rdkafka::admin::{AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::producer::FutureRecord;
use serde_json::json;
use service_kit::kafka;
use service_kit::testing::{SetAside, TestProcess, eventually, free_address};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn a_poison_record_among_good_ones_becomes_one_dead_letter() {
    let app = TestApp::new().await;
    let good = |n: u128| record(1, NEW_YEAR_US, &[event(n)]).to_string().into_bytes();
    let newer = record(1, NEW_YEAR_US, &[event(90)]).to_string().replacen("\"v\":1", "\"v\":999", 1);
    let early = record(1, -1, &[event(91)]).to_string();
    let far_future = record(1, NEW_YEAR_US, &[event(92)]).to_string().replace("1767225600000,", "99999999999999,");
    assert!(newer.contains("\"v\":999") && far_future.contains("99999999999999"), "the poison is poisonous");
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
    app.log.caught_up(&app.group()).await;
    worker.stop().await;

    expected.sort();
    let letters = app.log.set_aside().await;
    assert_eq!(letters.len(), expected.len(), "{letters:?}");
    for (SetAside { origin, payload, reason }, (expected_origin, bytes, why)) in letters.iter().zip(&expected) {
        assert_eq!((origin, payload), (expected_origin, bytes));
        assert!(reason.contains(why), "{reason}");
    }
}

/// Threat F21: what the log has taken from anybody is set aside, whole where the other topic takes it, else its head.
#[tokio::test(flavor = "multi_thread")]
async fn poison_of_any_size_is_set_aside_and_holds_nobody_up() {
    const BYTES: usize = 10 * 1024 * 1024;
    let app = TestApp::new().await;
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
    app.work_off(&app.group()).await;

    assert_eq!(app.visible().await, ["event-000001", "event-000002"]);
    let letters = app.log.set_aside().await;
    let [whole, head] = letters.as_slice() else { panic!("{} letters", letters.len()) };
    assert_eq!(whole.origin, format!("{}/1/{}", kafka.topic, places[0]));
    assert!(whole.payload == packs && whole.reason.starts_with("not a record"), "{}", whole.reason);
    assert_eq!(head.origin, format!("{}/1/{}", kafka.topic, places[1]));
    assert!(!head.payload.is_empty() && random.starts_with(&head.payload));
    assert!(head.reason.starts_with("only 1048576 of 10485760 bytes have room here: not a record"), "{}", head.reason);
    let (code, stdout, _) = app.command(&["rejected", "retry", &head.origin]).await;
    assert!(code == Some(1) && stdout.contains("refused"), "{stdout}");
}

/// A JSON record with a defect anywhere inside is set aside whole: a batch is visible whole or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn one_bad_event_keeps_its_whole_record_out() {
    let app = TestApp::new().await;
    let mut bad = event(2);
    bad["own_key"] = serde_json::json!("not hexadecimal");
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(1), bad, event(3)])), (0, record(1, NEW_YEAR_US, &[event(4)]))]).await;
    app.work_off(&app.group()).await;
    assert_eq!(app.visible().await, ["event-000004"]);
    assert_eq!(app.log.set_aside().await.len(), 1);
}

/// Threat F21: a letter that cannot be written holds its partition up, for otherwise its record would be lost.
#[tokio::test(flavor = "multi_thread")]
async fn while_no_letter_can_be_written_nothing_is_skipped() {
    let app = TestApp::new().await;
    let mut worker = app.process().await;
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    app.log.caught_up(&app.group()).await;
    let admin = kafka::admin(&app.stores.kafka).unwrap();
    let letters = app.stores.kafka.rejected_topic.as_str();
    admin.delete_topics(&[letters], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
    let origin = app.log.put(0, b"poison").await;
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(2)]))]).await;
    eventually("the worker says that it waits", || async {
        worker.stderr().contains("a dead letter was not acknowledged, trying again").then_some(())
    })
    .await;
    assert_eq!(app.log.uncommitted(&app.group()).await, 2);
    kafka::create_topics(&app.stores.kafka).await.unwrap();
    app.log.caught_up(&app.group()).await;
    assert_eq!(app.visible().await, ["event-000001", "event-000002"]);
    let found: Vec<String> = app.log.set_aside().await.into_iter().map(|letter| letter.origin).collect();
    assert!(!found.is_empty() && found.iter().all(|found| *found == origin), "{found:?}");
    assert_eq!(worker.terminate().await, Some(0));
}

/// Threat F22, the kind one: reading a record panics.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_makes_reading_panic_is_set_aside_and_the_worker_lives() {
    let app = TestApp::new().await;
    let mut worker = app.process().await;
    let mut bad = event(2);
    bad["data"] = json!("deadly-record:panic");
    let poison = record(1, NEW_YEAR_US, &[bad]).to_string();
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    let origin = app.log.put(0, poison.as_bytes()).await;
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(3)]))]).await;
    app.log.caught_up(&app.group()).await;
    assert_eq!(app.visible().await, ["event-000001", "event-000003"]);
    let letters = app.log.set_aside().await;
    let [letter] = letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!((letter.origin.as_str(), letter.payload.as_slice()), (origin.as_str(), poison.as_bytes()));
    assert!(letter.reason.contains("panicked"), "{}", letter.reason);
    assert!(worker.stderr().contains("a record asked for a panic"), "and the log says where");
    assert_eq!(worker.terminate().await, Some(0), "it never ended");
}

/// Threat F22, the other kind: whoever reads it dies, and is started again, as a supervisor does.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_kills_the_process_is_found_and_set_aside_alone() {
    const EVENTS: u128 = 120;
    let folder = tempfile::tempdir().unwrap();
    let (app, _broker) = TestApp::with_own_broker(folder.path()).await;
    let good = |n: u128| (i32::try_from(n).unwrap() % PARTITIONS, record(1, NEW_YEAR_US, &[event(n)]));
    app.put(&(0..EVENTS / 2).map(good).collect::<Vec<_>>()).await;
    let mut bad = event(EVENTS);
    bad["data"] = json!("deadly-record:abort");
    let poison = record(1, NEW_YEAR_US, &[bad]).to_string();
    let origin = app.log.put(3, poison.as_bytes()).await;
    app.put(&(EVENTS / 2..EVENTS).map(good).collect::<Vec<_>>()).await;

    let (mut survivor, deaths) = survivor(&app).await;
    assert!(deaths >= 4, "three died over it alone, and one before: {deaths}");
    assert_eq!(app.visible().await, (0..EVENTS).map(|n| format!("event-{n:06}")).collect::<Vec<_>>());
    let letters = app.log.set_aside().await;
    let [letter] = letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!((letter.origin.as_str(), letter.payload.as_slice()), (origin.as_str(), poison.as_bytes()));
    assert!(letter.reason.starts_with("quarantined: 3 processes died"), "{}", letter.reason);

    // And it is over: what comes next is read as ever, also by a new process.
    survivor.terminate().await;
    let mut next = app.process().await;
    app.put(&[(3, record(1, NEW_YEAR_US, &[event(EVENTS + 1)]))]).await;
    tokio::time::timeout(Duration::from_secs(120), app.log.caught_up(&app.group())).await.unwrap();
    assert_eq!(next.terminate().await, Some(0));
    assert_eq!(app.log.set_aside().await.len(), 1);
}

/// Starts workers, one after the other, until one has worked everything off; it, and how many died before.
async fn survivor(app: &TestApp) -> (TestProcess, u32) {
    for deaths in 0..=6 {
        let mut worker = app.process().await;
        let group = app.group();
        tokio::select! {
            () = app.log.caught_up(&group) => return (worker, deaths),
            code = worker.exit_code() => assert_eq!(code, None, "it was ended by a signal: {}", worker.stderr()),
        }
    }
    panic!("it is set aside after a bounded number of deaths");
}

/// A partition whose records are decoded alone is not suspected because another one's record kills in the same block.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_read_alone_is_not_blamed_for_what_kills_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _broker) = TestApp::with_own_broker(folder.path()).await;
    app.put_group(0, 0, "careful 2 1000000").await;
    app.put(&[(0, record(1, NEW_YEAR_US, &[event(0)]))]).await;
    let mut bad = event(2);
    bad["data"] = json!("deadly-record:abort");
    let origin = app.log.put(1, record(1, NEW_YEAR_US, &[bad]).to_string().as_bytes()).await;
    app.put(&[(1, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    let (mut survivor, deaths) = survivor(&app).await;
    assert!(deaths >= 4, "{deaths}");
    let letters: Vec<String> = app.log.set_aside().await.into_iter().map(|letter| letter.origin).collect();
    assert_eq!(letters, [origin]);
    assert_eq!(app.visible().await, ["event-000000", "event-000001"]);
    assert_eq!(survivor.terminate().await, Some(0));
}

/// What stands beside the committed offsets of the group, by partition.
async fn notes(app: &TestApp) -> Vec<String> {
    app.log.committed_metadata(&app.group()).await
}

/// Whoever dies while it decodes leaves word of that; whoever is asked to stop does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_leaves_in_good_order_is_not_taken_for_one_that_died() {
    let folder = tempfile::tempdir().unwrap();
    let (app, _broker) = TestApp::with_own_broker(folder.path()).await;
    app.put(&[(2, record(1, NEW_YEAR_US, &[event(1)]))]).await;
    // A block that stays open for as long as the test takes.
    let start = async || {
        let listen = free_address().to_string();
        let mut environment = app.environment(&listen, &free_address().to_string());
        environment.push(("TELEMETRY_BLOCK_AGE_MS", "600000".to_owned()));
        app.process_in(&listen, &environment).await
    };
    let marked = || async { (notes(&app).await[2].starts_with("decoding ")).then_some(()) };
    let mut leaving = start().await;
    eventually("it says that it decodes", marked).await;
    assert_eq!(leaving.terminate().await, Some(0));
    assert_eq!(notes(&app).await, [""; 6]);
    let mut dying = start().await;
    eventually("it says that it decodes", marked).await;
    dying.kill_9().await;
    assert_eq!(notes(&app).await[2], "decoding 0 0");
    let mut heir = start().await;
    eventually("the heir is careful", || async { (notes(&app).await[2].starts_with("decoding 1 ")).then_some(()) }).await;
    assert_eq!(heir.terminate().await, Some(0));
    assert!(notes(&app).await[2].starts_with("careful 1 "));
}

/// Caution costs a partition its own time, not that of the others: a block has one record of each that is read alone.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_are_read_record_by_record_do_not_wait_for_one_another() {
    const EACH: u128 = 100;
    let app = TestApp::new().await;
    for partition in 0..PARTITIONS {
        app.put_group(partition, 0, "careful 2 1000000").await;
    }
    let all = u128::try_from(PARTITIONS).unwrap() * EACH;
    let of = |n: u128| (i32::try_from(n).unwrap() % PARTITIONS, record(1, NEW_YEAR_US, &[event(n)]));
    app.put(&(0..all).map(of).collect::<Vec<_>>()).await;
    let metrics = free_address().to_string();
    let mut worker = app.process_at(&free_address().to_string(), &metrics).await;
    app.log.caught_up(&app.group()).await;
    assert_eq!(app.visible().await.len() as u128, all);
    let inserts: u128 = series(&metrics, "worker_insert_duration_seconds_count").await.expect("inserts are counted");
    assert!((EACH..all / 2).contains(&inserts), "{all} records in {inserts} blocks");
    assert_eq!(worker.terminate().await, Some(0));
}
