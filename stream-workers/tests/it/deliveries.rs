//! What receivers get, and when: signatures, the schedule, dead letters, disabled endpoints (S7; V8 to V10, V13, W8).

use crate::delivery_fixture::{DeliveryFixture, DeliveryState, HOST, delivering};
use crate::recording_receiver::{ReceivedRequest, RecordingReceiver};
use chrono::{DateTime, TimeDelta, Utc};
use schemas::webhook::retry_schedule::{MAX_ATTEMPTS, RETRY_DELAYS};
use schemas::webhook::verify::{Receiver, Rejection, verify};
use service_kit::clock::Clock;
use service_kit::testing::{TestReceiver, size};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stream_workers::deliver::ClockOffset;
use tokio::io::AsyncWriteExt;
use uuid::Uuid;

/// Maximum time from disabling an endpoint until a delivery that was leased before arrives: five seconds until the attempt starts, and ten
/// for the attempt.
const LATEST: TimeDelta = TimeDelta::seconds(15);

/// Returns the current time of a clock that is ahead.
fn now(ahead: &ClockOffset) -> DateTime<Utc> {
    Clock::System.now() + TimeDelta::microseconds(ahead.micros())
}

fn one_value<T: Ord>(letters: &[ReceivedRequest], of: impl Fn(&ReceivedRequest) -> T) -> bool {
    letters.iter().map(of).collect::<BTreeSet<_>>().len() == 1
}

#[tokio::test]
async fn v8_delivers_once_and_signed() {
    let (office, inbox, endpoint) = RecordingReceiver::with_endpoint(|_| Some(204)).await;
    let deliverer = office.deliverer();
    let ids = office.enqueue_all(&endpoint, 3).await;
    office.wait_until_delivered(&ids).await;
    let letters = inbox.requests();
    assert_eq!(letters.len(), 3);
    let mut receiver = Receiver::new(&endpoint.secret);
    for letter in &letters {
        let now = Clock::System.now();
        let delivery = receiver.accept(|name| letter.header(name), &letter.body, now).unwrap();
        assert!(ids.contains(&delivery.id().0), "the body has the row's id");
        assert_eq!((letter.path.as_str(), letter.header("content-type")), ("/in?x=1", Some("application/json")));
        assert_eq!(letter.header("x-svc-event-type"), Some("invite.claimed"));
        assert_eq!(letter.header("x-svc-delivery-id"), Some(delivery.id().to_string().as_str()));
        let stored: String = sqlx::query_scalar("SELECT body FROM webhook_deliveries WHERE id = $1")
            .bind(delivery.id().0)
            .fetch_one(&office.pool)
            .await
            .unwrap();
        assert_eq!(letter.body, stored.as_bytes(), "byte for byte what the transaction wrote");
        receiver.remember(delivery.id());
        assert_eq!(receiver.accept(|name| letter.header(name), &letter.body, now), Err(Rejection::Repeated));
        assert_eq!(verify("whsec_another", |name| letter.header(name), &letter.body, now), Err(Rejection::Forged));
    }
    deliverer.stop().await;
}

#[tokio::test]
async fn v6_each_attempt_resolves_and_connects_again() {
    let (office, inbox, endpoint) = RecordingReceiver::with_endpoint(|_| Some(204)).await;
    let deliverer = office.deliverer();
    office.wait_until_delivered(&office.enqueue_all(&endpoint, 2).await).await;
    assert_eq!(inbox.server.connects(), 2, "each attempt has its own connection");
    // The port is the same, but no server listens there.
    office.resolve_to("127.9.9.9");
    let id = office.enqueue(&endpoint).await;
    let standing = office.wait_for_state("the attempt ends", id, |standing| standing.attempts == 1).await;
    assert_eq!((standing.last_outcome.as_deref(), inbox.server.connects()), (Some("unreachable"), 2));
    deliverer.stop().await;
}

/// The test advances the clock, so 39 hours take no time: after every failed attempt, it sets the time to a second before the next one is
/// due, when nothing may happen, and then past it. `V10_REAL_GAPS=2` lets the first two gaps pass in real time, which takes six minutes.
#[tokio::test(flavor = "multi_thread")]
async fn s7_v10_becomes_a_dead_letter_after_eight_attempts() {
    let office = DeliveryFixture::new().await;
    // 4xx responses and redirects are retried like 5xx.
    let failing = RecordingReceiver::open(&office, |number| Some([500, 400, 404, 302, 503, 429, 410, 500][number.min(7)])).await;
    let healthy = RecordingReceiver::open(&office, |_| Some(200)).await;
    let (endpoint, other) = (office.endpoint(&failing.server).await, office.endpoint(&healthy.server).await);
    let ahead = ClockOffset::default();
    let deliverer = office.deliverer_ahead(&ahead);
    let doomed = office.enqueue(&endpoint).await;
    // Once another delivery has arrived, the deliverer has polled the queue at the current time.
    let looked = async || office.wait_until_delivered(&[office.enqueue(&other).await]).await;
    let (mut began, real_gaps): (Vec<DateTime<Utc>>, _) = (Vec::new(), size("V10_REAL_GAPS", 0));
    for attempt in 1..=MAX_ATTEMPTS {
        let counted = |standing: &DeliveryState| standing.attempts == i32::try_from(attempt).unwrap();
        let standing = office.wait_for_state("an attempt ends", doomed, counted).await;
        assert_eq!((failing.requests().len(), standing.last_outcome.as_deref()), (attempt, Some("bad_status")));
        began.push(standing.last_attempt_at.unwrap());
        eprintln!("S7 attempt {attempt} at {} answered {:?}: {}", began[attempt - 1], standing.last_status_code, standing.status);
        let Some(nominal) = RETRY_DELAYS.get(attempt - 1) else { continue };
        assert_eq!(standing.status, "pending");
        let ended = began[attempt - 1] + TimeDelta::milliseconds(standing.last_duration_ms.unwrap());
        let (least, most) = (ended + *nominal, now(&ahead) + nominal.mul_f64(1.1));
        assert!(standing.due_at >= least && standing.due_at <= most, "{standing:?} after attempt {attempt}");
        let until_due = (standing.due_at - now(&ahead)).to_std().unwrap();
        if attempt <= real_gaps {
            tokio::time::sleep(until_due.saturating_sub(Duration::from_secs(1))).await;
        } else {
            ahead.advance(until_due.saturating_sub(Duration::from_secs(1)));
        }
        if now(&ahead) < standing.due_at - TimeDelta::milliseconds(500) {
            looked().await;
        }
        let (seen, looked_at) = (failing.requests().len(), now(&ahead));
        assert!(seen == attempt || looked_at >= standing.due_at, "attempt {} came early", attempt + 1);
        if attempt > real_gaps {
            ahead.advance(Duration::from_secs(1));
        }
    }
    assert_eq!(office.delivery_state(doomed).await.status, "dead_letter");
    ahead.advance(Duration::from_secs(7 * 24 * 3_600));
    looked().await;
    let letters = failing.requests();
    assert_eq!(letters.len(), MAX_ATTEMPTS, "a ninth attempt was made");

    for (gap, nominal) in began.windows(2).map(|pair| (pair[1] - pair[0]).to_std().unwrap()).zip(RETRY_DELAYS) {
        eprintln!("S7 gap {gap:?}, nominal {nominal:?}: {:.4}", gap.as_secs_f64() / nominal.as_secs_f64());
        assert!(gap >= nominal, "{gap:?} is before {nominal:?}");
    }
    eprintln!("S7 from the first attempt to the dead letter: {}", began[7] - began[0]);
    assert!(
        one_value(&letters, |letter| letter.body.clone()) && one_value(&letters, ReceivedRequest::id),
        "all attempts are equal"
    );
    let times: BTreeSet<&str> = letters.iter().map(|letter| letter.header("x-svc-timestamp").unwrap()).collect();
    assert_eq!(times.len(), MAX_ATTEMPTS, "each attempt has its own signature");
    for (letter, began) in letters.iter().zip(began) {
        assert_eq!(letter.header("x-svc-timestamp").unwrap(), began.timestamp().to_string());
        assert!(verify(&endpoint.secret, |name| letter.header(name), &letter.body, began).is_ok());
        let later = verify(&endpoint.secret, |name| letter.header(name), &letter.body, began + TimeDelta::minutes(6));
        assert_eq!(later, Err(Rejection::Stale));
    }
    deliverer.stop().await;
}

/// The connection is accepted immediately, and the request is read seconds later, as on a slow network. For the receiver, an attempt starts
/// when it reads the request.
#[tokio::test(flavor = "multi_thread")]
async fn s7_does_not_retry_slow_receivers_early() {
    let office = DeliveryFixture::new().await;
    let read: Arc<Mutex<Vec<ReceivedRequest>>> = Arc::default();
    let reading = Arc::clone(&read);
    let slow = TestReceiver::start(office.authority.server_for(&[HOST]), move |mut stream| {
        let reading = Arc::clone(&reading);
        async move {
            tokio::time::sleep(Duration::from_millis(5_500)).await;
            let letter = ReceivedRequest::read(&mut stream).await;
            reading.lock().unwrap().extend(letter);
            let _ = stream.write_all(b"HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n").await;
        }
    })
    .await;
    office.open_port(&slow);
    let endpoint = office.endpoint(&slow).await;
    let ids = office.enqueue_all(&endpoint, 4).await;
    let deliverer = office.deliverer();
    for id in ids {
        let standing = office.wait_for_state("the attempt ends", id, |standing| standing.attempts == 1).await;
        let seen_at = read.lock().unwrap().iter().find(|letter| letter.id() == id).expect("the request was read").at;
        assert!(standing.due_at >= seen_at + RETRY_DELAYS[0], "{standing:?}, and its receiver saw it at {seen_at}");
    }
    deliverer.stop().await;
}

#[tokio::test]
async fn s7_retries_until_the_receiver_recovers() {
    let (office, inbox, endpoint) = RecordingReceiver::with_endpoint(|number| Some(if number < 2 { 503 } else { 202 })).await;
    let ahead = ClockOffset::default();
    let deliverer = office.deliverer_ahead(&ahead);
    let id = office.enqueue(&endpoint).await;
    for attempt in 1..=2 {
        office.wait_for_state("an attempt ends", id, |standing| standing.attempts == attempt).await;
        ahead.advance(Duration::from_secs(6 * 60));
    }
    office.wait_until_delivered(&[id]).await;
    let standing = office.delivery_state(id).await;
    assert_eq!((standing.attempts, standing.last_status_code, standing.lease), (3, Some(202), None));
    ahead.advance(Duration::from_secs(7 * 24 * 3_600));
    office.wait_until_delivered(&[office.enqueue(&endpoint).await]).await;
    assert_eq!(inbox.requests().len(), 4, "a delivered message is not sent again");
    deliverer.stop().await;
}

/// `TEST_ROUNDS` sets the number of rounds; the full test has 1000.
#[tokio::test]
async fn v13_does_not_send_rolled_back_messages() {
    let (office, inbox, endpoint) = RecordingReceiver::with_endpoint(|_| Some(204)).await;
    let deliverer = office.deliverer();
    let (mut rolled_back, rounds) = (Vec::new(), size("TEST_ROUNDS", 20));
    for _ in 0..rounds {
        let mut transaction = office.pool.begin().await.unwrap();
        rolled_back.push(office.enqueue_in(&mut *transaction, &endpoint).await);
        // The deliverer polls while the transaction is open.
        office.wait_until_delivered(&[office.enqueue(&endpoint).await]).await;
        transaction.rollback().await.unwrap();
    }
    office.wait_until_delivered(&[office.enqueue(&endpoint).await]).await;
    let arrived: BTreeSet<Uuid> = inbox.requests().iter().map(ReceivedRequest::id).collect();
    assert_eq!(arrived.len(), rounds + 1);
    assert!(rolled_back.iter().all(|id| !arrived.contains(id)));
    deliverer.stop().await;
}

/// `TEST_ROUNDS` sets the number of rounds. Compares the arrived requests with the time of disabling: the timestamp header has
/// the time of the lease, by the database's clock, which also determines when the endpoint was disabled. The receiver records
/// the arrival by the same clock, because database and receiver run on one machine.
#[tokio::test(flavor = "multi_thread")]
async fn w8_disabled_endpoints_get_no_new_attempts() {
    let office = DeliveryFixture::new().await;
    let (fast, failing) =
        (RecordingReceiver::open(&office, |_| Some(204)).await, RecordingReceiver::open(&office, |_| Some(500)).await);
    let ahead = ClockOffset::default();
    let (one, two) = (office.deliverer_ahead(&ahead), office.deliverer_ahead(&ahead));
    let (mut raced, mut disabled) = (0, BTreeMap::new());
    for round in 0..size("TEST_ROUNDS", 25) {
        let endpoint = office.endpoint(&fast.server).await;
        let before = fast.requests().len();
        let ids = office.enqueue_all(&endpoint, 6).await;
        if round % 2 == 0 {
            fast.wait_for(before + round % 3).await;
        }
        let disabled_at = office.disable(&endpoint).await;
        // Running attempts finish. Afterwards, this endpoint's deliveries are not leased.
        for id in &ids {
            let standing = office.wait_for_state("no attempt is in progress", *id, |standing| standing.lease.is_none()).await;
            assert!(
                standing.last_attempt_at.is_none_or(|at| at <= disabled_at),
                "round {round}: {standing:?} after {disabled_at}"
            );
            raced += usize::from(standing.last_attempt_at.is_none());
            disabled.insert(*id, (disabled_at, standing));
        }
    }
    assert!(raced > 0, "some were pending when their endpoint was disabled");
    // Everything that would still be sent is sent: an hour later, messages to another endpoint pass through each deliverer's next poll.
    ahead.advance(Duration::from_secs(60 * 60));
    let other = office.endpoint(&fast.server).await;
    office.wait_until_delivered(&office.enqueue_all(&other, 40).await).await;
    let (mut arrived, mut on_the_way): (BTreeMap<Uuid, i32>, Vec<TimeDelta>) = (BTreeMap::new(), Vec::new());
    for letter in fast.requests() {
        let Some((disabled_at, standing)) = disabled.get(&letter.id()) else { continue };
        let leased: i64 = letter.header("x-svc-timestamp").unwrap().parse().unwrap();
        assert!(leased <= disabled_at.timestamp(), "an attempt with a lease of {leased} arrived; disabled at {disabled_at}");
        assert!(letter.at <= *disabled_at + LATEST, "an attempt came at {}; disabled at {disabled_at}", letter.at);
        on_the_way.push(letter.at - standing.last_attempt_at.unwrap());
        *arrived.entry(letter.id()).or_default() += 1;
    }
    // A busy machine doesn't slow down the quickest of many: an attempt starts immediately after its lease.
    let quickest = on_the_way.iter().min().unwrap();
    eprintln!("W8 from the lease to its receiver: {quickest} at least, of {}", on_the_way.len());
    assert!(*quickest < TimeDelta::seconds(1), "every attempt began {quickest} after its lease, or later");
    for (id, (disabled_at, standing)) in &disabled {
        let came = arrived.get(id).copied().unwrap_or(0);
        assert_eq!(came, standing.attempts, "wrong number of arrivals of {id}, endpoint disabled at {disabled_at}");
    }
    let retried = office.endpoint(&failing.server).await;
    let id = office.enqueue(&retried).await;
    office.wait_for_state("the first attempt fails", id, |standing| standing.attempts == 1).await;
    office.disable(&retried).await;
    ahead.advance(Duration::from_secs(60 * 60));
    let standing = office.wait_for_state("the rest is dropped", id, |standing| standing.status == "dropped").await;
    assert_eq!((standing.attempts, failing.requests().len()), (1, 1));
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn signs_with_the_current_secret_or_waits() {
    let (office, inbox, endpoint) = RecordingReceiver::with_endpoint(|_| Some(204)).await;
    let ahead = ClockOffset::default();
    let mut settings = office.settings();
    settings.secrets.secrets_key = Some(service_kit::secret_encryption::SecretsKey::generate());
    let wrong = delivering(settings, ahead.clone());
    let id = office.enqueue(&endpoint).await;
    let put_off =
        |standing: &DeliveryState| standing.lease.is_none() && standing.due_at > Clock::System.now() + TimeDelta::seconds(40);
    let standing = office.wait_for_state("the delivery is postponed", id, put_off).await;
    assert_eq!((standing.attempts, standing.status.as_str(), inbox.requests().len()), (0, "pending", 0));
    wrong.stop().await;
    let rotated = office.rotate(&endpoint).await;
    ahead.advance(Duration::from_secs(120));
    let deliverer = office.deliverer_ahead(&ahead);
    office.wait_until_delivered(&[id]).await;
    let letter = inbox.requests().remove(0);
    assert!(verify(&rotated, |name| letter.header(name), &letter.body, now(&ahead)).is_ok());
    assert_eq!(verify(&endpoint.secret, |name| letter.header(name), &letter.body, now(&ahead)), Err(Rejection::Forged));
    deliverer.stop().await;
}
