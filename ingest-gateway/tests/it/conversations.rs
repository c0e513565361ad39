//! Conversation members on the log: only those that the strictest level declared for the session allows, and never a click token.

use crate::harness::{Gateway, TestApp, send_request, with};
use schemas::identity::OrgType;
use schemas::log::LogRecord;
use serde_json::{Value, json};
use std::collections::HashMap;
use uuid::Uuid;

const TEXT: &str = "planted-text";
const INTENT: &str = "planted-intent";

async fn started(gateway: &TestApp, key: &str, level: &str) -> String {
    gateway.start_session(key, &json!({"privacy_level": level})).await
}

/// Returns a turn with all members but without an id, so its key depends on its content.
fn turn(session: &str, own_level: Option<&str>) -> Value {
    json!({"type": "turn_completed", "timestamp": "2026-11-01T10:00:00Z", "session_id": session, "query_text": TEXT,
        "turn": {"privacy_level": own_level, "query_text": TEXT, "query_intent": INTENT, "query_tokens": 3}})
}

/// For each event, returns whether its text and intent were kept.
fn kept(records: &[LogRecord]) -> Vec<(bool, bool)> {
    let events = records.iter().flat_map(|record| &record.events);
    let texts = events.map(|event| serde_json::to_string(event).expect("an event serializes"));
    texts.map(|text| (text.contains(TEXT), text.contains(INTENT))).collect()
}

/// Like [`kept`], for the events in one session.
fn kept_of(session: &str, records: &[LogRecord]) -> Vec<(bool, bool)> {
    let is_of =
        |record: &&LogRecord| record.events.iter().any(|event| event.session_id.is_some_and(|id| id.to_string() == session));
    kept(&records.iter().filter(is_of).cloned().collect::<Vec<_>>())
}

#[tokio::test]
async fn events_follow_their_sessions_privacy_level() {
    let (gateway, key) = Gateway::with_agent().await;
    let mut expected = HashMap::new();
    for (session_level, own_level, kept) in [
        ("minimal", Some("full"), (false, false)),
        ("intent", Some("full"), (false, true)),
        ("summary", Some("intent"), (true, true)),
        ("full", None, (true, true)),
        // A turn's own level applies only to `turn`; the copy outside it follows the session's level.
        ("full", Some("minimal"), (true, false)),
    ] {
        let session = started(&gateway, &key, session_level).await;
        assert_eq!(gateway.report(&key, &json!({"events": [turn(&session, own_level)]})).await.status, 201);
        expected.insert(session, vec![kept]);
    }
    let records = gateway.log.all_records().await;
    let found = expected.keys().map(|session| (session.clone(), kept_of(session, &records)));
    assert_eq!(found.collect::<HashMap<_, _>>(), expected);
}

#[tokio::test]
async fn strictest_privacy_level_wins() {
    let gateway = Gateway::start().await;
    let other = Gateway::beside(&gateway).await;
    let key = gateway.key("agent", OrgType::Agent).await;
    let session = started(&gateway, &key, "full").await;
    let event = json!({"events": [turn(&session, Some("full"))]});
    assert_eq!(gateway.report(&key, &event).await.status, 201);
    let minimal = with(event.clone(), json!({"privacy_level": "minimal"}));
    assert_eq!(gateway.report(&key, &minimal).await.status, 201);
    let loosened = with(event.clone(), json!({"privacy_level": "full"}));
    assert_eq!(gateway.report(&key, &loosened).await.status, 201);
    let whole =
        json!({"session_id": session, "privacy_level": "full", "query_text": TEXT, "events": [turn(&session, Some("full"))]});
    assert_eq!(gateway.post(&key, "/sessions/bulk", &whole).await.status, 201);
    assert_eq!(other.report(&key, &loosened).await.status, 201, "the upload has stored the level that the event declared");
    let records = gateway.log.records(6).await;
    let mut texts: Vec<(bool, bool)> = kept(&records);
    texts.sort_unstable();
    assert_eq!(
        texts,
        [(false, false), (false, false), (false, false), (false, false), (true, true)],
        "only the first keeps its text"
    );
    let facts: Vec<String> =
        records.iter().filter_map(|record| record.session.as_ref()).map(|facts| format!("{facts:?}")).collect();
    assert!(facts.iter().all(|facts| !facts.contains(TEXT)), "{facts:?}");
}

#[tokio::test]
async fn removed_members_do_not_change_event_keys() {
    let (gateway, key) = Gateway::with_agent().await;
    let session = Uuid::new_v4().to_string();
    let event = json!({"events": [turn(&session, Some("full"))]});
    assert_eq!(gateway.report(&key, &event).await.status, 201);
    let tightened = json!({"session_id": session, "privacy_level": "minimal"});
    assert_eq!(gateway.post(&key, "/sessions/bulk", &tightened).await.status, 201);
    let again = gateway.report(&key, &event).await;
    assert_eq!((again.status, &again.body["events_created"]), (201, &json!(0)), "a repeat");
    let records = gateway.log.records(3).await;
    let keys: std::collections::BTreeSet<_> =
        records.iter().flat_map(|record| &record.events).map(|event| event.own_key).collect();
    assert_eq!(keys.len(), 1);
    let mut texts = kept(&records);
    texts.sort_unstable();
    assert_eq!(texts, [(false, false), (true, true)]);
}

/// The gateway applies a declared level before the worker has stored it.
#[tokio::test]
async fn s4_event_levels_apply_immediately_on_their_gateway() {
    let (gateway, key) = Gateway::with_agent().await;
    let session = Uuid::new_v4().to_string();
    let declared = json!({"privacy_level": "intent", "events": [with(turn(&session, None), json!({"id": "declared"}))]});
    assert_eq!(gateway.report(&key, &declared).await.status, 201);
    let whole =
        json!({"session_id": session, "privacy_level": "full", "query_text": TEXT, "events": [turn(&session, Some("full"))]});
    for (path, body) in [("/events", json!({"events": [turn(&session, Some("full"))]})), ("/sessions/bulk", whole)] {
        assert_eq!(gateway.post(&key, path, &body).await.status, 201, "{path}");
    }
    assert_eq!(kept(&gateway.log.records(3).await), [(false, true); 3], "intent");
    let level: Option<i16> =
        sqlx::query_scalar("SELECT privacy_level FROM sessions").fetch_one(&gateway.stores.pool).await.unwrap();
    assert_eq!(level, Some(1));
}

#[tokio::test]
async fn unknown_sessions_default_to_minimal() {
    let (gateway, key) = Gateway::with_agent().await;
    let session = Uuid::new_v4().to_string();
    let undeclared = json!({"events": [turn(&session, None)]});
    assert_eq!(gateway.report(&key, &undeclared).await.status, 201);
    let declared = json!({"privacy_level": "summary", "events": [turn(&Uuid::new_v4().to_string(), None)]});
    assert_eq!(gateway.report(&key, &declared).await.status, 201);
    let records = gateway.log.records(2).await;
    let mut texts = kept(&records);
    texts.sort_unstable();
    assert_eq!(texts, [(false, false), (true, true)]);
    let minimal = records
        .iter()
        .flat_map(|record| &record.events)
        .find(|event| event.session_id.is_some_and(|id| id.to_string() == session));
    assert_eq!(minimal.unwrap().extra.as_ref().unwrap().get(), r#"{"turn":{"query_tokens":3}}"#);
    let whole = json!({"session_id": session, "privacy_level": "full"});
    assert_eq!(gateway.post(&key, "/sessions/bulk", &whole).await.status, 201);
    assert_eq!(kept_of(&session, &gateway.log.records(3).await), [(false, false)], "a later level does not restore data");
}

#[tokio::test]
async fn removes_texts_and_address_hashes_from_sessions() {
    let (gateway, key) = Gateway::with_agent().await;
    let planted = json!({"query_text": TEXT, "ip_hash": "planted-hash", "client": {"ip_hash": "planted-hash", "x": 1}});
    let outcome = json!({"type": "browse", "query_text": TEXT, "metadata": {"query_text": TEXT, "ip_hash": "planted-hash", "kept": 2},
        "products": [{"ip_hash": "planted-hash", "sku": "s1"}]});
    let session = gateway.post(&key, "/sessions/start", &planted).await.body["session_id"].clone();
    let end = json!({"session_id": session, "outcome": outcome});
    for _ in 0..2 {
        assert_eq!(gateway.post(&key, "/sessions/end", &end).await.status, 200, "the same outcome is accepted again");
    }
    let whole = with(with(planted, json!({"session_id": Uuid::new_v4()})), json!({"outcome": outcome}));
    assert_eq!(gateway.post(&key, "/sessions/bulk", &whole).await.status, 201);
    let log = gateway.log.record_texts(4).await.join("\n");
    assert!(!log.contains(TEXT) && !log.contains("planted-hash") && !log.contains("ip_hash"), "{log}");
    // Members are removed at any depth.
    let nested = json!({"turn": {"query_text": TEXT}, "outcome": {"type": "browse", "conv": {"query_text": TEXT}, "metadata": [{"query_text": TEXT}]},
        "events": [{"type": "turn_completed", "timestamp": "2026-11-01T10:00:00Z", "data": {"turn": {"query_text": TEXT}}, "own": {"query_text": TEXT}},
            {"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "content_url": "https://a.test/", "data": {"response_text": TEXT, "n": 1}}]});
    assert_eq!(gateway.post(&key, "/sessions/bulk", &nested).await.status, 201);
    let all = gateway.log.record_texts(5).await.join("\n");
    assert!(!all.contains(TEXT) && all.contains(r#""data":{"n":1}"#), "{all}");
    for kept in [r#""client":{"x":1}"#, r#""kept":2"#, r#""sku":"s1""#] {
        assert_eq!(log.matches(kept).count(), if kept.contains("client") { 2 } else { 3 }, "{kept} in {log}");
    }
    let stored: Vec<String> = sqlx::query_scalar("SELECT outcome FROM sessions WHERE outcome IS NOT NULL")
        .fetch_all(&gateway.stores.pool)
        .await
        .unwrap();
    assert!(stored.iter().all(|outcome| !outcome.contains(TEXT) && !outcome.contains("ip_hash")), "{stored:?}");
}

#[tokio::test]
async fn stored_sessions_follow_their_privacy_level() {
    let (gateway, key) = Gateway::with_agent().await;
    let own = json!({"query_text": TEXT, "query_intent": INTENT, "query_tokens": 3, "own": 1, "ip_hash": "planted-hash",
        "client": {"response_text": TEXT, "topics": [INTENT], "ip_hash": "planted-hash", "x": 1}});
    let stored = async |session: &Value| -> Value {
        let extra: String = sqlx::query_scalar("SELECT extra FROM sessions WHERE session_id = $1")
            .bind(session.as_str().unwrap().parse::<Uuid>().unwrap())
            .fetch_one(&gateway.stores.pool)
            .await
            .unwrap();
        serde_json::from_str(&extra).unwrap()
    };
    let at_minimal = json!({"query_tokens": 3, "own": 1, "client": {"x": 1}});
    let at_intent = with(at_minimal.clone(), json!({"query_intent": INTENT, "client": {"topics": [INTENT], "x": 1}}));
    let at_summary =
        with(at_intent.clone(), json!({"query_text": TEXT, "client": {"response_text": TEXT, "topics": [INTENT], "x": 1}}));
    for (level, expected) in [
        (json!(null), &at_minimal),
        (json!("minimal"), &at_minimal),
        (json!("intent"), &at_intent),
        (json!("summary"), &at_summary),
        (json!("full"), &at_summary),
    ] {
        let said = with(own.clone(), json!({"privacy_level": level}));
        let started = gateway.post(&key, "/sessions/start", &said).await.body["session_id"].clone();
        let uploaded = json!(Uuid::new_v4());
        let upload = with(said, json!({"session_id": uploaded}));
        assert_eq!(gateway.post(&key, "/sessions/bulk", &upload).await.status, 201, "{level}");
        assert_eq!((&stored(&started).await, &stored(&uploaded).await), (expected, expected), "{level}");
        // An upload with a laxer level doesn't change a stricter session's level.
        let strict = gateway.post(&key, "/sessions/start", &json!({"privacy_level": "minimal"})).await.body["session_id"].clone();
        let laxer = with(own.clone(), json!({"session_id": strict, "privacy_level": level}));
        assert_eq!(gateway.post(&key, "/sessions/bulk", &laxer).await.status, 201, "{level}");
        assert_eq!(stored(&strict).await, at_minimal, "{level}");
    }
}

#[tokio::test]
async fn click_tokens_never_reach_the_log() {
    let (gateway, key) = Gateway::with_agent().await;
    let session = started(&gateway, &key, "full").await;
    let token = gateway.create_token(&key, &session, "https://a.test/").await;
    let link = format!("https://a.test/x?utm=1&ctx={token}#y");
    let engaged = json!({"type": "content_engaged", "timestamp": "2026-11-01T10:00:00Z", "ctx_token": token, "content_url": link,
        "data": {"referrer": link, "engagement_type": "link_click"}, "landing": {"href": link}});
    let cited = json!({"type": "turn_completed", "timestamp": "2026-11-01T10:00:00Z", "session_id": session,
        "turn": {"content_urls_cited": [link, "https://b.test/"], "response_text": format!("see {link}")}});
    let renamed = json!({"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "session_id": session,
        "content_url": format!("https://a.test/?CTX={token}"), "id": token, "content_id": token, "turn_id": token, "output_id": token,
        "content_telemetry_id": token, "data": {"spelled": token.replace('_', "%5F")}});
    let named = json!({"type": format!("own.{token}"), "timestamp": "2026-11-01T10:00:00Z", "session_id": session});
    let batch = json!({"agent_id": token, "events": [engaged, cited, renamed, named]});
    assert_eq!(
        send_request(gateway.post_request("/events", &key).header("x-request-id", &token).body(batch.to_string())).await.status,
        201
    );
    let whole = json!({"agent_id": token, "content_scope": token, "external_session_id": token, "landing": link,
        "outcome": {"type": "browse", "metadata": {"landing": link}}});
    let uploaded = gateway.post(&key, "/sessions/bulk", &whole).await;
    assert_eq!(uploaded.status, 201, "{}", uploaded.body);
    let log = gateway.log.record_texts(3).await.join("\n");
    let random = token.strip_prefix("ctx_").unwrap();
    assert!(!log.contains(random), "{log}");
    assert!(log.matches("ctx_withheld").count() >= 19, "the rest of each text is kept: {log}");
    let stored: Vec<String> = sqlx::query_scalar("SELECT s::text FROM sessions s").fetch_all(&gateway.stores.pool).await.unwrap();
    assert!(stored.iter().all(|row| !row.contains(random)), "{stored:?}");
    let nested =
        json!({"session_id": session, "content_url": format!("https://a.test/go?next=https%3A%2F%2Fb.test%2F%3Fctx%3D{token}")});
    let redirect = gateway.post(&key, "/click-tokens", &nested).await;
    assert_eq!(redirect.status, 201, "{}", redirect.body);
    assert!(!redirect.body["content_url"].as_str().unwrap().contains(random), "{}", redirect.body);
}

#[tokio::test]
async fn other_gateways_apply_stricter_levels_within_10_seconds() {
    let gateway = Gateway::start().await;
    let other = Gateway::beside(&gateway).await;
    let key = gateway.key("agent", OrgType::Agent).await;
    let session = started(&gateway, &key, "full").await;
    let event = json!({"events": [turn(&session, Some("full"))]});
    assert_eq!(other.report(&key, &event).await.status, 201, "it has looked up the session");
    let tightened = json!({"session_id": session, "privacy_level": "minimal"});
    assert_eq!(gateway.post(&key, "/sessions/bulk", &tightened).await.status, 201);
    tokio::time::sleep(std::time::Duration::from_millis(10_500)).await;
    assert_eq!(other.report(&key, &with(event, json!({"agent_id": "later"}))).await.status, 201);
    let mut texts = kept(&gateway.log.records(4).await);
    texts.sort_unstable();
    assert_eq!(texts, [(false, false), (true, true)]);
}

#[tokio::test]
async fn stricter_levels_apply_to_concurrent_later_events() {
    let (gateway, key) = Gateway::with_agent().await;
    const SESSIONS: usize = 60;
    for _ in 0..SESSIONS {
        let session = Uuid::new_v4().to_string();
        let tightened = json!({"session_id": session, "privacy_level": "minimal"});
        let event = json!({"events": [turn(&session, Some("minimal"))]});
        let (a, b, c) = tokio::join!(
            gateway.report(&key, &event),
            gateway.post(&key, "/sessions/bulk", &tightened),
            gateway.report(&key, &event)
        );
        assert_eq!((a.status, b.status, c.status), (201, 201, 201));
        assert_eq!(gateway.report(&key, &json!({"events": [turn(&session, Some("full"))]})).await.status, 201);
    }
    assert!(kept(&gateway.log.records(4 * SESSIONS).await).iter().all(|kept| *kept == (false, false)));
}
