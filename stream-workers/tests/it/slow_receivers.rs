//! Slow, endless, hanging and invalid receivers: attempts end in time, and other deliveries don't wait for them (S6; V3 to V5, V7, V11,
//! F35).

use crate::delivery_fixture::{DeliveryFixture, HOST};
use crate::recording_receiver::{ReceivedRequest, RecordingReceiver};
use chrono::{DateTime, TimeDelta, Utc};
use service_kit::clock::Clock;
use service_kit::testing::{TestAuthority, TestReceiver, eventually, size};
use std::collections::HashMap;
use std::time::Duration;
use stream_workers::deliver::{ClockOffset, QueueFigures};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use uuid::Uuid;

/// Name, first bytes, repeated bytes, pause between repeats, and expected outcome.
type Kind = (&'static str, &'static [u8], &'static [u8], Duration, &'static str);

/// Reads the request, sends `first`, then sends `again` repeatedly with a pause in between.
async fn repeating(office: &DeliveryFixture, first: &'static [u8], again: &'static [u8], pause: Duration) -> TestReceiver {
    let receiver = TestReceiver::start(office.authority.server_for(&[HOST]), move |mut stream| async move {
        if ReceivedRequest::read(&mut stream).await.is_none() || stream.write_all(first).await.is_err() {
            return;
        }
        while stream.write_all(again).await.is_ok() && stream.flush().await.is_ok() {
            tokio::time::sleep(pause).await;
        }
    })
    .await;
    office.open_port(&receiver);
    receiver
}

/// All attempts take their full ten seconds, concurrently. The duration of each is only printed; the test asserts that it ends and how.
#[tokio::test(flavor = "multi_thread")]
async fn s6_v5_attempts_time_out_at_slow_receivers() {
    let office = DeliveryFixture::new().await;
    let (tick, none) = (Duration::from_millis(200), Duration::ZERO);
    let (zeros, long): (&'static [u8], &'static [u8]) = (&[0; 16 * 1024], &[b'y'; 16 * 1024]);
    let kinds: [Kind; 8] = [
        ("silence after the request", b"", b"", tick, "timeout"),
        ("slow head", b"HTTP/1.1 200 OK\r\nx: ", b"y", tick, "timeout"),
        ("interim responses forever", b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", tick, "timeout"),
        ("endless head", b"HTTP/1.1 200 OK\r\nx: ", long, none, "not_http"),
        ("slow body", b"HTTP/1.1 500 X\r\ncontent-length: 100000\r\n\r\n", b"y", tick, "bad_status"),
        ("slow chunks", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\ny\r\n", tick, "delivered"),
        ("a gigabyte", b"HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n", zeros, none, "delivered"),
        ("gzip forever", b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n\x1f\x8b", zeros, none, "delivered"),
    ];
    let mut receivers = Vec::new();
    let mut waiting: Vec<(&str, &str, Uuid)> = Vec::new();
    for (name, first, again, pause, expected) in kinds {
        let receiver = repeating(&office, first, again, pause).await;
        let endpoint = office.endpoint(&receiver).await;
        waiting.push((name, expected, office.enqueue(&endpoint).await));
        receivers.push(receiver);
    }
    let mute = office.hanging().await;
    waiting.push(("no TLS", "timeout", office.enqueue(&office.endpoint(&mute).await).await));
    let deliverer = office.deliverer();
    for (name, expected, id) in waiting {
        let standing = office.wait_for_state(&format!("{name}: the attempt ends"), id, |standing| standing.attempts == 1).await;
        eprintln!("S6 {name}: {expected} after {} ms", standing.last_duration_ms.unwrap());
        assert_eq!(standing.last_outcome.as_deref(), Some(expected), "{name}");
    }
    deliverer.stop().await;
}

/// Hundreds of running attempts don't use a PostgreSQL connection. The test asserts the order of deliveries, not their times, to show that
/// healthy endpoints don't wait: all their deliveries arrive before the first hanging attempt times out. `TEST_ROUNDS` sets the number of
/// waves.
#[tokio::test(flavor = "multi_thread")]
async fn s6_v11_f35_hanging_endpoints_do_not_delay_others() {
    const HEALTHY: usize = 25;
    let office = DeliveryFixture::new().await;
    let hanging = office.hanging().await;
    let inbox = RecordingReceiver::open(&office, |_| Some(204)).await;
    for _ in 0..10 {
        let org = office.org().await;
        for _ in 0..10 {
            office.enqueue_all(&office.endpoint_of(org, &hanging).await, 6).await;
        }
    }
    let mut healthy = Vec::new();
    for _ in 0..HEALTHY {
        healthy.push(office.endpoint(&inbox.server).await);
    }
    let deliverer = office.deliverer_with(|settings| settings.postgres.database_url.push_str("?application_name=deliverer"));
    // Each endpoint has exactly four attempts.
    eventually("the hanging ones hang", || async { (hanging.connects() >= 400).then_some(()) }).await;
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'deliverer' AND datname = current_database() \
                AND state <> 'idle'";
    let busy: i64 = sqlx::query_scalar(busy).fetch_one(&office.pool).await.unwrap();
    assert!(busy <= 2, "{busy} connections are in use while 400 attempts are in progress");
    let mut posted: HashMap<Uuid, DateTime<Utc>> = HashMap::new();
    for wave in 1..=size("TEST_ROUNDS", 2) {
        for endpoint in &healthy {
            let at = Clock::System.now();
            posted.insert(office.enqueue(endpoint).await, at);
        }
        inbox.wait_for(wave * HEALTHY).await;
        let given_up = office.given_up().await;
        assert!(wave > 1 || (given_up, hanging.connects()) == (0, 400), "healthy endpoints waited: {given_up} timeouts");
    }
    let mut took: Vec<TimeDelta> = inbox.requests().iter().map(|letter| letter.at - posted[&letter.id()]).collect();
    took.sort_unstable();
    eprintln!(
        "S6 {} first attempts beside 100 hanging endpoints: median {}, p99 {}; connections to PostgreSQL in use meanwhile: {busy}",
        took.len(),
        took[took.len() / 2],
        took[took.len() * 99 / 100]
    );
    drop(deliverer);
}

/// Returns a listener that doesn't accept connections: pending ones fill its queue, and the system drops all others.
async fn unreachable() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let (address, mut waiting, mut dropped) = (listener.local_addr().unwrap(), Vec::new(), 0);
    while dropped < 2 {
        match tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(address)).await {
            Ok(stream) => waiting.push(stream.unwrap()),
            Err(_) => dropped += 1,
        }
    }
    (listener, waiting)
}

/// Two attempts run until the first one has ended, then one at a time: the fourth starts when the third has ended.
#[tokio::test(flavor = "multi_thread")]
async fn v11_slow_endpoints_get_one_attempt_at_a_time() {
    let office = DeliveryFixture::new().await;
    let late = RecordingReceiver::open_with(&office, |_| async {
        tokio::time::sleep(Duration::from_millis(5_200)).await;
        204
    })
    .await;
    let (nobody, _waiting) = unreachable().await;
    let nobody = nobody.local_addr().unwrap();
    office.open(nobody);
    let mut waiting = Vec::new();
    for (address, expected) in [(late.server.address, "delivered"), (nobody, "unreachable")] {
        let endpoint = office.endpoint_on(office.org().await, address).await;
        waiting.push((expected, office.enqueue_all(&endpoint, 4).await));
    }
    let deliverer = office.deliverer_with(|settings| settings.pace.deliveries_per_endpoint = 2);
    for (expected, ids) in waiting {
        let mut attempts = Vec::new();
        for id in ids {
            let standing = office.wait_for_state("the attempt ends", id, |standing| standing.attempts == 1).await;
            assert_eq!(standing.last_outcome.as_deref(), Some(expected));
            let began = standing.last_attempt_at.unwrap();
            attempts.push((began, began + TimeDelta::milliseconds(standing.last_duration_ms.unwrap())));
        }
        attempts.sort_unstable();
        let [_, _, third, fourth] = attempts.as_slice() else { panic!("{attempts:?}") };
        assert!(fourth.0 >= third.1, "{expected}: two at a time, {attempts:?}");
    }
    deliverer.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn v7_v4_sends_nothing_to_untrusted_servers() {
    let office = DeliveryFixture::new().await;
    let canary = TestReceiver::canary().await;
    let stranger = TestAuthority::new();
    let mut waiting = Vec::new();
    let mut receivers = Vec::new();
    for (outcome, config) in [
        ("tls_expired", office.authority.expired_server_for(&[HOST])),
        ("tls_not_yet_valid", office.authority.early_server_for(&[HOST])),
        ("tls_unknown_authority", TestAuthority::self_signed_server_for(&[HOST])),
        ("tls_unknown_authority", stranger.server_for(&[HOST])),
        ("tls_other_name", office.authority.server_for(&["other.test"])),
        ("tls_authority_as_server", office.authority.authority_as_server_for(&[HOST])),
    ] {
        let receiver = TestReceiver::start(config, |mut stream| async move {
            let _ = ReceivedRequest::read(&mut stream).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        })
        .await;
        office.open_port(&receiver);
        waiting.push((outcome, outcome, office.enqueue(&office.endpoint(&receiver).await).await));
        receivers.push(receiver);
    }
    let target = format!("HTTP/1.1 307 X\r\nlocation: https://{}/\r\ncontent-length: 0\r\n\r\n", canary.address);
    let redirecting = TestReceiver::start(office.authority.server_for(&[HOST]), move |mut stream| {
        let target = target.clone();
        async move {
            let _ = ReceivedRequest::read(&mut stream).await;
            let _ = stream.write_all(target.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    })
    .await;
    office.open_port(&redirecting);
    office.open_port(&canary);
    waiting.push(("a redirect", "bad_status", office.enqueue(&office.endpoint(&redirecting).await).await));
    // The receiver was allowed when it was registered, but no longer is.
    let inside = office.endpoint_at(office.org().await, &format!("https://localhost:{}/", canary.address.port())).await;
    waiting.push(("an internal host name", "no_public_address", office.enqueue(&inside).await));
    let deliverer = office.deliverer();
    for (name, expected, id) in waiting {
        let standing = office.wait_for_state(&format!("{name}: the attempt ends"), id, |standing| standing.attempts == 1).await;
        assert_eq!((standing.last_outcome.as_deref(), standing.status.as_str()), (Some(expected), "pending"), "{name}");
    }
    assert_eq!(canary.connects(), 0);
    deliverer.stop().await;
}

/// The gauge for operators' alerts ignores deliveries that wait for a hanging receiver, but not deliveries that have never been attempted.
#[tokio::test(flavor = "multi_thread")]
async fn only_unattempted_deliveries_are_overdue() {
    let office = DeliveryFixture::new().await;
    let waiting = async || QueueFigures::read(&office.pool, &ClockOffset::default()).await.unwrap();
    assert_eq!(waiting().await, QueueFigures { pending: 0, overdue_seconds: None });
    let hanging = office.hanging().await;
    let endpoint = office.endpoint(&hanging).await;
    office.enqueue_all(&endpoint, 6).await;
    let deliverer = office.deliverer();
    eventually("attempts are in progress", || async { (hanging.connects() >= 4).then_some(()) }).await;
    let age = "UPDATE webhook_queue SET due_at = now() - interval '10 minutes' WHERE lease IS NULL";
    assert!(sqlx::query(age).execute(&office.pool).await.unwrap().rows_affected() >= 2);
    assert_eq!(waiting().await, QueueFigures { pending: 6, overdue_seconds: None });
    deliverer.stop().await;
    let overdue = waiting().await.overdue_seconds.unwrap();
    assert!((600.0..3_600.0).contains(&overdue), "{overdue}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f53_hanging_receivers_leave_lanes_for_others() {
    let office = DeliveryFixture::new().await;
    let hanging = office.hanging().await;
    let inbox = RecordingReceiver::open(&office, |_| Some(204)).await;
    let busy = office.org().await;
    for _ in 0..4 {
        office.enqueue_all(&office.endpoint_of(busy, &hanging).await, 4).await;
    }
    let deliverer = office.deliverer_with(|settings| settings.pace.deliveries_at_once = 8);
    eventually("the organization has its share", || async { (hanging.connects() >= 4).then_some(()) }).await;
    let endpoint = office.endpoint(&inbox.server).await;
    office.enqueue(&endpoint).await;
    inbox.wait_for(1).await;
    assert_eq!((office.given_up().await, hanging.connects()), (0, 4), "half of eight lanes, and no attempt has ended");
    drop(deliverer);
}
