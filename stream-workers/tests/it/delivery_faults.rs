//! Deliverers and their database fail at critical moments. Every message arrives, and repeats are the same message (S7, F19, F34, V14).
//! `killed_deliverers` kills them repeatedly.

use crate::clicks_without_postgres::with_own_postgres;
use crate::delivery_fixture::{DeliveryFixture, Endpoint};
use crate::recording_receiver::{ReceivedRequest, RecordingReceiver};
use schemas::webhook::verify::Receiver;
use service_kit::clock::Clock;
use service_kit::testing::{TestProcess, TestStores, size};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;
use stream_workers::deliver::ClockOffset;
use tokio::task::spawn_blocking;
use uuid::Uuid;

/// Returns the distinct bodies by id. A correct repeat has the same body.
fn bodies(letters: &[ReceivedRequest], endpoint: &Endpoint) -> BTreeMap<Uuid, BTreeSet<Vec<u8>>> {
    let mut bodies: BTreeMap<Uuid, BTreeSet<Vec<u8>>> = BTreeMap::new();
    for letter in letters {
        let receiver = Receiver::new(&endpoint.secret);
        assert!(receiver.accept(|name| letter.header(name), &letter.body, letter.at).is_ok(), "each attempt is signed well");
        bodies.entry(letter.id()).or_default().insert(letter.body.clone());
    }
    bodies
}

/// The receiver has read the whole request when its sender dies, so the outcome of the attempt is not stored.
#[tokio::test(flavor = "multi_thread")]
async fn s7_f34_repeats_the_delivery_of_a_killed_deliverer() {
    let (office, inbox, endpoint) = RecordingReceiver::with_endpoint(|number| (number > 0).then_some(204)).await;
    let id = office.enqueue(&endpoint).await;
    let mut first = office.process().await;
    inbox.wait_for(1).await;
    let held = office.delivery_state(id).await;
    assert!(held.lease.is_some() && held.attempts == 0, "an attempt is in progress: {held:?}");
    first.kill_9().await;
    let killed_at = Clock::System.now();
    eprintln!("S7 killed -9 at {killed_at} with delivery {id} sent and not stored; its lease expires at {}", held.due_at);

    let mut second = office.process().await;
    office.wait_until_delivered(&[id]).await;
    let letters = inbox.requests();
    for letter in &letters {
        let (time, signature) = (&letter.headers["x-svc-timestamp"], &letter.headers["x-svc-signature"]);
        eprintln!("S7 arrived at {} id {} timestamp {time} signature {}…", letter.at, letter.id(), &signature[..12]);
    }
    assert_eq!(letters.len(), 2);
    assert_eq!(bodies(&letters, &endpoint).get(&id).map(BTreeSet::len), Some(1), "one id, one body");
    assert_ne!(letters[0].header("x-svc-timestamp"), letters[1].header("x-svc-timestamp"), "each attempt has its own signature");
    assert!(letters[1].at >= held.due_at, "not before the lease expired");
    let standing = office.delivery_state(id).await;
    assert_eq!((standing.attempts, standing.status.as_str()), (1, "delivered"), "an attempt without a result does not count");
    assert_eq!(second.terminate().await, Some(0), "{}", second.stderr());
}

/// Exit code 0 also means that it took less than ten seconds. A slower drain exits with another code.
#[tokio::test(flavor = "multi_thread")]
async fn stopping_releases_hanging_deliveries() {
    let (office, inbox, endpoint) = RecordingReceiver::with_endpoint(|_| None).await;
    let ids = office.enqueue_all(&endpoint, 3).await;
    let mut process = office.process().await;
    inbox.wait_for(3).await;
    assert_eq!(process.terminate().await, Some(0), "{}", process.stderr());
    for id in ids {
        let standing = office.delivery_state(id).await;
        assert!(standing.lease.is_none() && standing.attempts == 0 && standing.due_at <= Clock::System.now(), "{standing:?}");
    }
}

#[tokio::test]
async fn requires_a_valid_secrets_key() {
    for key in [None, Some("hunter2")] {
        let settings = [
            ("DATABASE_URL", "postgres://127.0.0.1:1/x"),
            ("CLICKHOUSE_URL", "http://127.0.0.1:1"),
            ("KAFKA_BROKERS", "127.0.0.1:1"),
        ];
        let listen = [("TELEMETRY_LISTEN", "127.0.0.1:0"), ("TELEMETRY_METRICS_LISTEN", "127.0.0.1:0")];
        let key = key.map(|key| ("TELEMETRY_SECRETS_KEY", key));
        let settings: Vec<(&str, &str)> = settings.into_iter().chain(listen).chain(key).collect();
        let mut process = TestProcess::service(&["deliver"], &settings);
        assert_eq!(process.exit_code().await, Some(1), "{key:?}");
        let said = process.stderr();
        let last = said.lines().last().unwrap();
        assert!(last.starts_with("TELEMETRY_SECRETS_KEY") && last.contains("openssl rand -base64 32"), "{said}");
        assert!(!said.contains("hunter2"), "a refused key is not repeated: {said}");
    }
}

/// `TEST_ROUNDS` sets the number of messages for each of the five endpoints.
#[tokio::test(flavor = "multi_thread")]
async fn v14_only_one_deliverer_sends_a_message() {
    let office = DeliveryFixture::new().await;
    let inbox = RecordingReceiver::open(&office, |_| Some(204)).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        let endpoint = office.endpoint(&inbox.server).await;
        ids.extend(office.enqueue_all(&endpoint, size("TEST_ROUNDS", 30)).await);
    }
    let deliverers = [office.deliverer(), office.deliverer(), office.deliverer()];
    office.wait_until_delivered(&ids).await;
    let mut arrived: Vec<Uuid> = inbox.requests().iter().map(ReceivedRequest::id).collect();
    arrived.sort_unstable();
    ids.sort_unstable();
    assert_eq!(arrived, ids, "each once");
    for deliverer in deliverers {
        deliverer.stop().await;
    }
}

/// The first deliverer's clock stands still, and the second one's is past the lease, as if the first process had been paused for a long
/// time.
#[tokio::test(flavor = "multi_thread")]
async fn v14_does_not_store_an_outcome_without_the_lease() {
    let office = DeliveryFixture::new().await;
    let (slow, release) = RecordingReceiver::held(&office, 1, |number| if number == 0 { 500 } else { 204 }).await;
    let endpoint = office.endpoint(&slow.server).await;
    let late = office.deliverer();
    let id = office.enqueue(&endpoint).await;
    slow.wait_for(1).await;
    let ahead = ClockOffset::default();
    ahead.advance(Duration::from_secs(31));
    let quick = office.deliverer_ahead(&ahead);
    office.wait_until_delivered(&[id]).await;
    let before = office.delivery_state(id).await;
    release.store(true, Ordering::SeqCst);
    // The late deliverer ends with its attempt, so everything is stored when it has stopped.
    late.stop().await;
    let after = office.delivery_state(id).await;
    assert_eq!((after.status.as_str(), after.attempts, after.last_attempt_at), ("delivered", 1, before.last_attempt_at));
    let letters = slow.requests();
    assert_eq!((letters.len(), letters[0].id(), &letters[0].body), (2, id, &letters[1].body));
    quick.stop().await;
}

/// `F19_RESTARTS` sets the number of restarts; the full test has 100.
#[tokio::test(flavor = "multi_thread")]
async fn f19_postgres_restarts_do_not_lose_deliveries() {
    let restarts = size("F19_RESTARTS", 3);
    let count = 40 * restarts;
    let folder = tempfile::tempdir().unwrap();
    let (stores, mut server) = with_own_postgres(folder.path(), TestStores::unprepared().await).await;
    let office = DeliveryFixture::on(stores).await;
    // Slow enough to be interrupted.
    let inbox = RecordingReceiver::open_with(&office, |_| async {
        tokio::time::sleep(Duration::from_millis(40)).await;
        204
    })
    .await;
    let mut ids = Vec::new();
    let (one, two) = (office.endpoint(&inbox.server).await, office.endpoint(&inbox.server).await);
    for endpoint in [&one, &two] {
        ids.extend(office.enqueue_all(endpoint, count / 2).await);
    }
    let ahead = ClockOffset::default();
    let deliverer = office.deliverer_ahead(&ahead);
    for portion in 1..=restarts {
        inbox.wait_for(portion * count / (2 * restarts)).await;
        server = spawn_blocking(move || {
            server.kill_9();
            server.restart().unwrap();
            server
        })
        .await
        .unwrap();
    }
    // Leases of attempts whose outcome could not be stored expire.
    ahead.advance(Duration::from_secs(60));
    office.wait_until_delivered(&ids).await;
    let letters = inbox.requests();
    let arrived: BTreeSet<Uuid> = letters.iter().map(ReceivedRequest::id).collect();
    assert_eq!(arrived, ids.into_iter().collect());
    let distinct: BTreeSet<&[u8]> = letters.iter().map(|letter| letter.body.as_slice()).collect();
    assert_eq!(distinct.len(), count, "repeats are the same bytes");
    deliverer.stop().await;
}
