//! `Idempotency-Key`: a retry has the same events even if details differ, and reusing a key for other events is rejected.

use crate::harness::{Gateway, SESSION, TestApp, TestResponse, retrieval, send_request, with};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use std::collections::BTreeSet;

async fn post(gateway: &TestApp, path: &str, key: &str, idempotency_key: &str, body: &Value) -> TestResponse {
    send_request(gateway.post_request(path, key).header("idempotency-key", idempotency_key).body(body.to_string())).await
}

async fn keys(gateway: &TestApp, records: usize) -> BTreeSet<u128> {
    gateway.log.records(records).await.into_iter().flat_map(|record| record.events).map(|event| event.own_key.0).collect()
}

#[tokio::test]
async fn rejects_an_idempotency_key_with_other_events() {
    let gateway = Gateway::start().await;
    let agent = gateway.seed().org("agent", OrgType::Agent).await;
    let events = |url: &str| json!({"events": [retrieval(url)]});
    for path in ["/events", "/sessions/bulk"] {
        let first = post(&gateway, path, &agent.key, path, &events("https://a.test/1")).await;
        assert_eq!((first.status, &first.body["events_created"]), (201, &json!(1)), "{path}");
        let before = gateway.log.record_count();
        let other = post(&gateway, path, &agent.key, path, &events("https://a.test/2")).await;
        assert_eq!((other.status, other.body["code"].as_str()), (422, Some("invalid_request")), "{path}");
        let more = json!({"events": [retrieval("https://a.test/1"), retrieval("https://a.test/1")]});
        assert_eq!(post(&gateway, path, &agent.key, path, &more).await.status, 422, "{path}");
        assert_eq!(gateway.log.record_count(), before, "{path}");
        let retried = with(retrieval("https://a.test/1"), json!({"timestamp": "2026-11-01T10:00:07Z", "data": {"try": 2}}));
        let retried = post(&gateway, path, &agent.key, path, &json!({"events": [retried]})).await;
        assert_eq!((retried.status, &retried.body["events_created"]), (201, &json!(0)), "{path}");
    }
    let stranger = gateway.seed().org("stranger", OrgType::Agent).await;
    assert_eq!(post(&gateway, "/events", &stranger.key, "/events", &events("https://a.test/9")).await.status, 201);
}

#[tokio::test]
async fn other_gateways_store_other_events_separately() {
    let gateway = Gateway::start().await;
    let other = Gateway::beside(&gateway).await;
    let key = gateway.key("agent", OrgType::Agent).await;
    let events = |url: &str, at: &str| json!({"events": [with(retrieval(url), json!({"timestamp": at}))]});
    let (early, late) = ("2026-11-01T10:00:00Z", "2026-11-01T10:00:07Z");
    assert_eq!(post(&gateway, "/events", &key, "k", &events("https://a.test/1", early)).await.status, 201);
    assert_eq!(post(&other, "/events", &key, "k", &events("https://a.test/1", late)).await.status, 201);
    assert_eq!(keys(&gateway, 2).await.len(), 1, "a retry on another gateway, with a new time");
    let third = Gateway::beside(&gateway).await;
    assert_eq!(post(&third, "/events", &key, "k", &events("https://a.test/2", early)).await.status, 201);
    assert_eq!(keys(&gateway, 3).await.len(), 2, "another page is another event");
}

#[tokio::test]
async fn repeated_uploads_without_a_session_id_are_one_session() {
    let (gateway, key) = Gateway::with_agent().await;
    let upload = async |body: &Value| gateway.post(&key, "/sessions/bulk", body).await;
    let body = json!({"agent_id": "bot", "events": [retrieval("https://a.test/1")]});
    let (first, retry) = (upload(&body).await, upload(&body).await);
    assert_eq!((first.status, &first.body["events_created"], &retry.body["events_created"]), (201, &json!(1), &json!(0)));
    assert_eq!(first.body["session_id"], retry.body["session_id"]);
    let other = upload(&with(body, json!({"agent_id": "other"}))).await;
    assert_ne!(first.body["session_id"], other.body["session_id"]);
    assert_eq!(keys(&gateway, 3).await.len(), 2);
}

#[tokio::test]
async fn organizations_do_not_share_idempotency_keys() {
    let gateway = Gateway::start().await;
    let orgs = [gateway.seed().org("one", OrgType::Agent).await, gateway.seed().org("two", OrgType::Agent).await];
    // An edge's event, one with an id, one without, and a whole session.
    let bare = retrieval("https://a.test/1");
    let body = json!({"events": [bare, with(bare.clone(), json!({"id": "e1"})), with(bare.clone(), json!({"type": "content_cited", "source_role": null, "session_id": SESSION}))]});
    let whole = json!({"agent_id": "bot", "events": [bare]});
    let mut sessions = BTreeSet::new();
    for org in &orgs {
        for (path, body) in [("/events", &body), ("/sessions/bulk", &whole), ("/sessions/start", &json!({}))] {
            let (first, retry) =
                (post(&gateway, path, &org.key, path, body).await, post(&gateway, path, &org.key, path, body).await);
            assert_eq!((first.status, retry.status), (201, 201), "{path}: {}", first.body);
            assert_eq!(first.body["session_id"], retry.body["session_id"], "{path}");
            if path == "/events" || path == "/sessions/bulk" {
                let sent = body["events"].as_array().map_or(0, Vec::len);
                assert_eq!((&first.body["events_created"], &retry.body["events_created"]), (&json!(sent), &json!(0)), "{path}");
            }
            sessions.extend(first.body["session_id"].as_str().map(|id| (path, id.to_owned())));
        }
        let unnamed = gateway.post(&org.key, "/sessions/bulk", &whole).await;
        sessions.insert(("by its body", unnamed.body["session_id"].as_str().expect("an id").to_owned()));
    }
    assert_eq!(sessions.len(), 6, "each organization has its own sessions: {sessions:?}");
    let records = gateway.log.all_records().await;
    let of = |org: &service_kit::testing::SeededOrg| {
        let own = records.iter().filter(|record| record.org == org.id);
        own.flat_map(|record| &record.events).map(|event| event.own_key.0).collect::<BTreeSet<u128>>()
    };
    let (one, two) = (of(&orgs[0]), of(&orgs[1]));
    assert!(one.len() == two.len() && one.is_disjoint(&two), "each organization has its own events");
}
