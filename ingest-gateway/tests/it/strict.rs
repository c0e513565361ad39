//! Strict mode over HTTP: for one key, for a whole gateway, on both endpoints, every fault at once.

use crate::harness::Gateway;
use ingest_gateway::Limits;
use schemas::identity::OrgType;
use serde_json::{Value, json};

const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

/// What loose mode takes and strict mode refuses.
fn short_report() -> Value {
    json!({"session_id": SESSION, "events": [{"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "content_url": "https://a.test/"}]})
}

#[tokio::test]
async fn a_strict_key_is_held_to_the_rules_and_its_neighbour_is_not() {
    let gateway = Gateway::start().await;
    let (strict, loose) = (gateway.seed().org("s", OrgType::Agent).await, gateway.seed().org("l", OrgType::Agent).await);
    gateway.seed().make_strict(strict.id).await;
    assert_eq!(gateway.post_to("/events", &strict.key, &short_report()).await.status, 422);
    assert_eq!(gateway.post_to("/events", &loose.key, &short_report()).await.status, 201);
    assert_eq!(gateway.record_count(), 1);
}

#[tokio::test]
async fn the_setting_holds_every_key_to_the_rules() {
    let gateway = Gateway::start_with(Limits { strict: true, ..Limits::default() }).await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
    assert_eq!(gateway.post_to("/events", &key, &short_report()).await.status, 422);
    let bulk = json!({"session_id": SESSION, "events": []});
    let refused = gateway.post_to("/sessions/bulk", &key, &bulk).await;
    let found: Vec<_> = refused.faults().into_iter().map(|(_, field, code)| format!("{field}:{code}")).collect();
    assert_eq!(found, ["schema_version:required", "started_at:required"]);
    let start = gateway.post_to("/sessions/start", &key, &json!({})).await;
    assert_eq!(start.status, 201, "starting a session is no document of the standard");
}

#[tokio::test]
async fn faults_of_the_envelope_of_each_event_and_between_them_come_together() {
    let gateway = Gateway::start().await;
    let org = gateway.seed().org("agent", OrgType::Agent).await;
    gateway.seed().make_strict(org.id).await;
    let id = "770e8400-e29b-41d4-a716-446655440601";
    let body = json!({"schema_version": "1.1", "session_id": SESSION, "events": [
        {"type": "content_cited", "timestamp": "yesterday", "id": id, "content_url": "https://a.test/", "data": {"citation_type": "summary"}},
        {"type": "content_engaged", "timestamp": "2026-11-01T10:00:00Z", "content_url": "https://a.test/"},
        {"type": "checkout_started", "timestamp": "2026-11-01T10:00:00Z", "id": id},
    ]});
    let refused = gateway.post_to("/events", &org.key, &body).await;
    let place = |index: Option<u64>| index.map(|index| format!("{index}.")).unwrap_or_default();
    let found: Vec<_> =
        refused.faults().into_iter().map(|(index, field, code)| format!("{}{field}:{code}", place(index))).collect();
    assert_eq!(
        found,
        [
            "document_type:required",
            "schema_version:unknown_value",
            "0.timestamp:bad_timestamp",
            "0.output_id:required",
            "0.data.citation_type:unknown_value",
            "1.presentation_id:required",
            "2.id:duplicate",
            "2.type:unknown_type",
        ]
    );
    assert_eq!(gateway.record_count(), 0);
}
