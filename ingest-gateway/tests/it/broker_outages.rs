//! C9, C12: brokers and gateways are killed, stopped and paused under load. Events confirmed with a 2xx are never lost, and events rejected
//! immediately never appear.

use crate::harness::{head, retrieval, with};
use crate::outage_harness::{Load, OutageFixture, Outcome, Sender, acked, spilled_files};
use schemas::identity::OrgType;
use serde_json::json;
use service_kit::testing::{Seed, client, eventually};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Much less than a wait for the broker. The load generator measures how fast rejections are.
const AT_ONCE: Duration = Duration::from_secs(3);

async fn ids(site: &OutageFixture) -> BTreeSet<String> {
    site.ids().await.into_iter().collect()
}

fn assert_all_acked(outcomes: &[Outcome]) {
    let refused: Vec<_> = outcomes.iter().filter(|outcome| outcome.status != 201).collect();
    assert!(refused.is_empty(), "{} of {} were rejected, the first: {:?}", refused.len(), outcomes.len(), refused.first());
}

/// Asserts that every confirmed event is on the log.
async fn assert_none_lost(site: &OutageFixture, outcomes: &[Outcome]) {
    let acked = acked(outcomes);
    let missing: Vec<_> = acked.difference(&ids(site).await).cloned().collect();
    assert!(missing.is_empty(), "{} of {} lost: {:?}", missing.len(), acked.len(), missing.first());
}

fn burst(sender: &Sender, count: usize) -> JoinSet<Outcome> {
    let send = |number| {
        let sender = sender.clone();
        async move { sender.post(&format!("burst-{number}")).await }
    };
    (0..count).map(send).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn c9_accepts_every_request_when_the_broker_is_killed() {
    let mut site = OutageFixture::new().await;
    let gateway = site.start(&[]).await;
    let load = Load::start(&gateway, "load", 16);
    tokio::time::sleep(Duration::from_secs(1)).await;
    site.kill_broker().await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(!spilled_files(&site.spill()).is_empty(), "records go to the spill");
    site.restart_broker().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let outcomes = load.stop().await;
    assert_all_acked(&outcomes);
    site.drained().await;
    assert_eq!(ids(&site).await, acked(&outcomes), "of {} requests", outcomes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn c9_drains_the_spill_in_order() {
    let mut site = OutageFixture::new().await;
    let gateway = site.start(&[]).await;
    site.kill_broker().await;
    let session = uuid::Uuid::new_v4().to_string();
    let mut sent = Vec::new();
    for number in 0..300 {
        let id = format!("ordered-{number}");
        let event = with(retrieval("https://a.test/"), json!({"id": id, "session_id": session}));
        assert_eq!(gateway.sender.post_event(&id, &event).await.status, 201);
        sent.push(id);
    }
    site.restart_broker().await;
    site.drained().await;
    // The first record may also arrive directly, because it was sent to the producer before it was spilled.
    let mut seen = BTreeSet::new();
    let first_seen: Vec<String> = site.ids().await.into_iter().filter(|id| seen.insert(id.clone())).collect();
    assert_eq!(first_seen, sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn c9_killed_gateways_do_not_lose_spilled_events() {
    let mut site = OutageFixture::new().await;
    let mut gateway = site.start(&[]).await;
    site.kill_broker().await;
    let load = Load::start(&gateway, "before", 16);
    tokio::time::sleep(Duration::from_secs(3)).await;
    gateway.child.kill_9().await;
    let mut outcomes = load.stop().await;
    assert!(acked(&outcomes).len() > 16, "it has spilled");

    // Start it without a broker, and let it accept more.
    let mut gateway = site.start(&[]).await;
    let load = Load::start(&gateway, "after", 4);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = load.stop().await;
    assert_all_acked(&after);
    outcomes.extend(after);

    // Kill it once more while it drains.
    site.restart_broker().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    gateway.child.kill_9().await;
    let _gateway = site.start(&[]).await;
    site.drained().await;
    assert_none_lost(&site, &outcomes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c9_full_quota_rejects_immediately_without_writing() {
    let mut site = OutageFixture::new().await;
    let gateway = site.start(&[("TELEMETRY_SPILL_MAX_BYTES", "100000")]).await;
    site.kill_broker().await;
    assert_eq!(gateway.sender.post("opens-the-breaker").await.status, 201);
    let mut outcomes = Vec::new();
    for number in 0..400 {
        outcomes.push(gateway.sender.post(&format!("quota-{number}")).await);
    }
    let refused: Vec<_> = outcomes.iter().filter(|outcome| outcome.status != 201).collect();
    assert!(!refused.is_empty() && refused.len() < 400, "{} refused", refused.len());
    for outcome in &refused {
        assert_eq!((outcome.status, outcome.says_when), (503, true), "{outcome:?}");
        assert!(outcome.took < AT_ONCE, "{outcome:?}");
    }
    site.restart_broker().await;
    site.drained().await;
    let mut expected = acked(&outcomes);
    expected.insert("opens-the-breaker".to_owned());
    assert_eq!(ids(&site).await, expected);
    assert_eq!(gateway.sender.post("room-again").await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn f53_organizations_share_the_spill() {
    const QUOTA_BYTES: usize = 1024 * 1024;
    const NOTE_BYTES: usize = 50_000;
    let mut site = OutageFixture::new().await;
    let gateway = site.start(&[("TELEMETRY_SPILL_MAX_BYTES", &QUOTA_BYTES.to_string())]).await;
    let other = gateway.sender.with_key(&Seed(&site.stores.pool).org("other", OrgType::Agent).await.key);
    site.kill_broker().await;
    assert_eq!(gateway.sender.post("opens-the-breaker").await.status, 201);
    // Send several times an organization's share.
    let (mut greedy, mut modest) = (Vec::new(), Vec::new());
    for number in 0..3 * QUOTA_BYTES / NOTE_BYTES {
        let id = format!("greedy-{number}");
        let event = with(retrieval("https://a.test/"), json!({"id": id, "data": {"own.note": "x".repeat(NOTE_BYTES)}}));
        greedy.push(gateway.sender.post_event(&id, &event).await);
        if number % 4 == 0 {
            modest.push(other.post(&format!("modest-{number}")).await);
        }
    }
    assert_all_acked(&modest);
    let most = QUOTA_BYTES / 8 * 7 / NOTE_BYTES;
    assert!((most - 2..=most).contains(&acked(&greedy).len()), "{} of at most {most}", acked(&greedy).len());
    for outcome in greedy.iter().filter(|outcome| outcome.status != 201) {
        assert_eq!((outcome.status, outcome.says_when), (503, true), "{outcome:?}");
    }
    site.restart_broker().await;
    site.drained().await;
    let mut expected = acked(&[greedy, modest].concat());
    expected.insert("opens-the-breaker".to_owned());
    assert_eq!(ids(&site).await, expected);
    assert_eq!(gateway.sender.post("room-again").await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn c9_accepts_every_request_while_the_broker_is_paused() {
    let site = OutageFixture::new().await;
    let gateway = site.start(&[]).await;
    assert_eq!(gateway.sender.post("up").await.status, 201);
    site.broker().pause();
    let first = gateway.sender.post("paused-0").await;
    assert!(first.status == 201 && first.took < Duration::from_secs(8), "{first:?}");
    let mut outcomes = vec![first];
    for number in 1..50 {
        outcomes.push(gateway.sender.post(&format!("paused-{number}")).await);
    }
    assert_all_acked(&outcomes);
    let waited = outcomes[1..].iter().filter(|outcome| outcome.took >= Duration::from_secs(1)).count();
    assert!(waited < 25, "{waited} of 49 waited for a log that was known to be unavailable");
    let ready = client().get(format!("{}/ready", gateway.url)).send().await.unwrap();
    assert_eq!(ready.status(), 200, "a gateway that accepts writes is ready");
    assert_eq!(ready.json::<serde_json::Value>().await.unwrap()["kafka"], "spilling");
    site.broker().resume();
    site.drained().await;
    assert_none_lost(&site, &outcomes).await;
    eventually("the log is used directly again", || async {
        let ready = client().get(format!("{}/ready", gateway.url)).send().await.ok()?;
        (ready.json::<serde_json::Value>().await.ok()?["kafka"] == "ok").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_write_to_an_invalid_topic() {
    let mut site = OutageFixture::without_topics().await;
    let mut refused = site.launch(&[]);
    assert_eq!(refused.child.exit_code().await, Some(1));
    assert!(refused.child.stderr().contains("create it with `telemetry stream-workers prepare`"), "{}", refused.child.stderr());

    site.kill_broker().await;
    let gateway = site.start(&[]).await;
    assert_eq!(gateway.sender.post("kept").await.status, 201);
    site.restart_broker().await;
    let said = || gateway.child.stderr();
    eventually("it names the fix", || async {
        said().contains("create it with `telemetry stream-workers prepare`").then_some(())
    })
    .await;
    assert_eq!(gateway.sender.post("kept-too").await.status, 201);
    service_kit::kafka::create_topics(&site.kafka).await.unwrap();
    site.drained().await;
    assert_eq!(ids(&site).await, BTreeSet::from(["kept".to_owned(), "kept-too".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn c12_stops_in_time_with_a_dead_broker_and_hung_clients() {
    let mut site = OutageFixture::new().await;
    let mut gateway = site.start(&[]).await;
    let address = gateway.url.trim_start_matches("http://").to_owned();
    let mut hung = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all((head("/events", &site.key, 1_000) + "{").as_bytes()).await.unwrap();
        hung.push(stream);
    }
    let load = Load::start(&gateway, "load", 16);
    tokio::time::sleep(Duration::from_millis(500)).await;
    site.kill_broker().await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let asked = Instant::now();
    assert_eq!(gateway.child.terminate().await, Some(0), "{}", gateway.child.stderr());
    assert!(asked.elapsed() <= Duration::from_secs(15), "it took {:?}", asked.elapsed());
    for mut stream in hung {
        let mut answer = Vec::new();
        // A reset counts as an end.
        let _ = stream.read_to_end(&mut answer).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(text.is_empty() || text.ends_with('}'), "a partial response: {text}");
    }
    let outcomes = load.stop().await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome.status, 201 | 0)), "only complete responses");
    site.restart_broker().await;
    let _gateway = site.start(&[]).await;
    site.drained().await;
    assert_none_lost(&site, &outcomes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_overload_immediately() {
    let site = OutageFixture::new().await;
    let gateway = site.start(&[("TELEMETRY_MAX_IN_PROGRESS", "16"), ("TELEMETRY_SPILL_MAX_BYTES", "0")]).await;
    gateway.sender.post_until_acknowledged("up").await;
    site.broker().pause();
    // Half of the 16 slots are reserved for other organizations.
    let outcomes = burst(&gateway.sender, 64).join_all().await;
    site.broker().resume();
    assert!(outcomes.iter().all(|outcome| outcome.status == 503 && outcome.says_when), "{outcomes:?}");
    let at_once = outcomes.iter().filter(|outcome| outcome.took < Duration::from_millis(700)).count();
    assert!((32..=64 - 8).contains(&at_once), "{at_once} refused before anything was awaited: {outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f53_organizations_share_write_slots() {
    let site = OutageFixture::new().await;
    let gateway = site.start(&[("TELEMETRY_MAX_IN_PROGRESS", "8"), ("TELEMETRY_SPILL_MAX_BYTES", "0")]).await;
    gateway.sender.post_until_acknowledged("up").await;
    let other = Seed(&site.stores.pool).org("other", OrgType::Agent).await.key;
    site.broker().pause();
    let mut waiting = burst(&gateway.sender, 64);
    // The first immediate rejection shows that the organization uses all of its slots.
    let refused = waiting.join_next().await.unwrap().unwrap();
    assert!(refused.status == 503 && refused.took < Duration::from_millis(700), "{refused:?}");
    let waited = gateway.sender.with_key(&other).post("other").await;
    assert!(waited.took >= Duration::from_millis(700), "another organization's request waits for the log: {waited:?}");
    site.broker().resume();
    waiting.join_all().await;
}
