//! Strict mode as a gateway setting. Strict mode for a single key is tested in `fixtures`.

use crate::harness::{Gateway, SESSION, event};
use ingest_gateway::Limits;
use schemas::identity::OrgType;
use serde_json::json;

#[tokio::test]
async fn setting_applies_strict_mode_to_every_key() {
    let gateway = Gateway::start_with(Limits { strict: true, ..Limits::default() }).await;
    let key = gateway.key("agent", OrgType::Agent).await;
    let refused = gateway.post(&key, "/sessions/bulk", &json!({"session_id": SESSION, "events": []})).await;
    assert_eq!(refused.faults(), ["schema_version:required", "started_at:required"]);
    let start = gateway.post(&key, "/sessions/start", &json!({})).await;
    assert_eq!(start.status, 201, "the standard has no rules for starting a session");
    let id = "770e8400-e29b-41d4-a716-446655440601";
    let body = json!({"schema_version": "1.1", "session_id": SESSION, "events": [
        event("content_cited", json!({"timestamp": "yesterday", "id": id, "data": {"citation_type": "summary"}})),
        event("content_engaged", json!({})),
        event("checkout_started", json!({"id": id, "content_url": null})),
    ]});
    let refused = gateway.report(&key, &body).await;
    assert_eq!(
        refused.faults(),
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
    assert_eq!(gateway.log.record_count(), 1, "only the started session");
}
