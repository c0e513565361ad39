//! Click tokens while PostgreSQL is unavailable: they are stored as hashes, and rules that don't need a lookup still apply.

use crate::harness::{SESSION, TestApp, with};
use crate::postgres_outages::gateway_and_database;
use schemas::identity::OrgType;
use schemas::log::{LogEvent, LogRecord};
use schemas::secrets::{PlainClickToken, SecretHash};
use serde_json::{Value, json};
use service_kit::testing::eventually;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Returns an engagement without an id, so its key depends on its content.
fn engaged(minute: u8, members: Value) -> Value {
    let at = format!("2026-11-01T10:{minute:02}:00Z");
    with(json!({"type": "content_engaged", "timestamp": at, "content_url": "https://a.test/x"}), members)
}

fn hash(token: &str) -> SecretHash {
    PlainClickToken::presented(token).hash()
}

/// Waits until the gateway queries PostgreSQL again.
async fn until_asked_again(gateway: &TestApp, key: &str) {
    let never = json!({"events": [engaged(59, json!({"ctx_token": "ctx_never"}))]});
    eventually("an unknown token is refused", || async { (gateway.report(key, &never).await.status == 422).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn accepts_tokens_by_hash_without_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, database) = gateway_and_database(folder.path()).await;
    let agent = gateway.seed().org("agent", OrgType::Agent).await;
    let shop = gateway.seed().org("shop", OrgType::Platform).await;
    let own = json!({"session_id": SESSION, "agent_id": "bot"});
    assert_eq!(gateway.post(&agent.key, "/sessions/bulk", &own).await.status, 201);
    let (token, other) = (
        gateway.create_token(&agent.key, SESSION, "https://a.test/x").await,
        gateway.create_token(&agent.key, SESSION, "https://a.test/x").await,
    );
    let known = json!({"events": [{"type": "content_retrieved", "timestamp": "2026-11-01T10:00:00Z", "source_role": "edge", "content_url": "https://a.test/"}]});
    assert_eq!(gateway.report(&shop.key, &known).await.status, 201);

    // Checkouts with the event's own token, with the envelope's, and with a token next to a session.
    let checkout = with(engaged(3, json!({"ctx_token": token})), json!({"type": "checkout_completed", "source_role": "index"}));
    let batches = [
        json!({"events": [engaged(1, json!({"ctx_token": token})), checkout]}),
        json!({"ctx_token": other, "events": [engaged(4, json!({}))]}),
        json!({"session_id": SESSION, "events": [engaged(5, json!({"ctx_token": token, "id": "e5"}))]}),
    ];
    database.pause();
    for batch in &batches {
        let asked = Instant::now();
        let taken = gateway.report(&shop.key, batch).await;
        assert_eq!(taken.status, 201, "{}", taken.body);
        assert!(asked.elapsed() < Duration::from_secs(3), "a request hung for {:?}", asked.elapsed());
    }
    database.resume();
    until_asked_again(&gateway, &shop.key).await;
    for batch in &batches {
        assert_eq!(gateway.report(&shop.key, batch).await.status, 201);
    }

    // The log contains the session, the first event, unknown tokens accepted during the outage, and each batch twice.
    let texts = gateway.log.record_texts(usize::try_from(gateway.log.record_count()).unwrap()).await;
    assert!(!texts.iter().any(|text| text.contains(&token) || text.contains(&other) || text.contains("ctx_never")));
    let records: Vec<LogRecord> = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert!(records.iter().any(LogRecord::is_unresolved));
    let events = records.iter().filter(|record| record.org == shop.id).flat_map(|record| &record.events);
    let events: Vec<&LogEvent> = events.filter(|event| event.source_role.is_none_or(|role| role.as_str() != "edge")).collect();
    let of = |minute: i64| {
        let at_ms = 1_793_527_200_000 + minute * 60_000;
        let (hashed, resolved): (Vec<&LogEvent>, Vec<&LogEvent>) =
            events.iter().filter(|event| event.at_ms == at_ms).partition(|event| event.is_unresolved());
        let ([hashed], [resolved]) = (hashed.as_slice(), resolved.as_slice()) else { panic!("minute {minute}: {events:?}") };
        (*hashed, *resolved)
    };
    let bound = Some(agent.id);
    // Next to a session, a foreign token doesn't bind the event, whether it could be looked up or not.
    let expected =
        [(1, &token, None, bound), (3, &token, None, bound), (4, &other, None, bound), (5, &token, Some(SESSION), None)];
    for (minute, token, named, bound) in expected {
        let (hashed, resolved) = of(minute);
        assert!(hashed.ctx_hash == Some(hash(token)), "minute {minute}");
        assert_eq!(hashed.session_id.map(|id| id.to_string()).as_deref(), named, "minute {minute}");
        assert_eq!((hashed.session_org, hashed.agent_id.as_deref()), (None, None), "minute {minute}");
        assert_eq!(resolved.session_id.map(|id| id.to_string()).as_deref(), Some(SESSION), "minute {minute}");
        assert_eq!(
            (resolved.session_org, resolved.agent_id.as_deref()),
            (bound, None),
            "minute {minute}: the worker sets the agent"
        );
        assert_eq!(hashed.own_key, resolved.own_key, "minute {minute}: a retry is the same event");
    }
    // The worker stores the session that the shop named. The token next to it is irrelevant.
    let left = records.iter().flat_map(|record| record.named_sessions.iter().map(|report| (record.org, report.session_id)));
    let left: BTreeSet<_> = left.map(|(org, session)| (org, session.to_string())).collect();
    assert_eq!(left, BTreeSet::from([(shop.id, SESSION.to_owned())]));
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_known_tokens_without_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, mut database) = gateway_and_database(folder.path()).await;
    let agent = gateway.seed().org("agent", OrgType::Agent).await;
    let shop = gateway.seed().org("shop", OrgType::Platform).await;
    assert_eq!(gateway.post(&agent.key, "/sessions/bulk", &json!({"session_id": SESSION})).await.status, 201);
    let token = gateway.create_token(&agent.key, SESSION, "https://a.test/x").await;
    let owner = gateway.seed().owner_of("a.test").await;
    for key in [&shop.key, &agent.key, &owner.key] {
        let met = json!({"events": [engaged(1, json!({"ctx_token": token}))]});
        assert_eq!(gateway.report(key, &met).await.status, 201);
    }

    database.kill_9();
    let grounded = json!({"type": "content_grounded", "ctx_token": "ctx_other"});
    let wrong_type = gateway.report(&agent.key, &json!({"events": [engaged(2, grounded)]})).await;
    assert_eq!((wrong_type.status, wrong_type.faults()[0].as_str()), (422, "0.session_id:required"), "{}", wrong_type.body);
    let another = json!({"session_id": "00000000-0000-4000-8000-000000000001", "ctx_token": token});
    let mismatch = gateway.report(&agent.key, &json!({"events": [engaged(3, another)]})).await;
    assert_eq!((mismatch.status, mismatch.faults()[0].as_str()), (422, "0.ctx_token:session_mismatch"), "{}", mismatch.body);
    for (path, body) in [
        ("/sessions/start", json!({})),
        ("/sessions/end", json!({"session_id": SESSION})),
        ("/sessions/bulk", json!({"session_id": SESSION})),
        ("/click-tokens", json!({"session_id": SESSION, "content_url": "https://a.test/x"})),
    ] {
        assert_eq!(gateway.post(&agent.key, path, &body).await.status, 503, "{path}");
    }
    let unknown_host = engaged(3, json!({"ctx_token": "ctx_other", "content_url": null}));
    let unknown_host = gateway.report(&owner.key, &json!({"events": [unknown_host]})).await;
    assert_eq!(unknown_host.status, 503, "the event's host is unknown: {}", unknown_host.body);
    let both = json!({"events": [engaged(4, json!({"ctx_token": token})), engaged(4, json!({"ctx_token": "ctx_other"}))]});
    assert_eq!(gateway.report(&shop.key, &both).await.status, 201);
    let records = gateway.log.records(5).await;
    let record = records.iter().find(|record| record.events.len() == 2).expect("the last record");
    let [met, other] = record.events.as_slice() else { panic!("{record:?}") };
    assert_eq!((met.session_id.map(|id| id.to_string()).as_deref(), met.session_org), (Some(SESSION), Some(agent.id)));
    assert!(!met.is_unresolved() && other.ctx_hash == Some(hash("ctx_other")) && other.session_id.is_none());
}
