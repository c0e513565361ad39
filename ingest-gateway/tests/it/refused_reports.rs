//! The reasons for rejected reports are stored per organization, without any report content.

use crate::harness::{Gateway, retrieval};
use schemas::identity::{OrgType, Scope};
use serde_json::json;
use service_kit::testing::eventually;
use uuid::Uuid;

type Row = (Uuid, String, i16, String, String, String, i64);

#[tokio::test]
async fn counts_rejected_reports_by_reason() {
    let gateway = Gateway::start().await;
    let (agent, other) = (gateway.seed().org("agent", OrgType::Agent).await, gateway.seed().org("other", OrgType::Agent).await);
    let reader = gateway.seed().key(agent.id, OrgType::Agent, &[Scope::TelemetryRead]).await;
    let mut untimed = retrieval("https://a.test/planted-page");
    untimed["timestamp"].take();
    let mut untyped = untimed.clone();
    untyped["type"].take();
    let batches = [json!({"events": [untimed, untimed]}), json!({"events": [untyped]})];
    for batch in &batches {
        assert_eq!(gateway.report(&agent.key, batch).await.status, 422);
    }
    assert_eq!(gateway.report(&agent.key, &json!("planted")).await.status, 400);
    assert_eq!(gateway.report(&reader, &batches[0]).await.status, 403);
    assert_eq!(gateway.report(&other.key, &batches[1]).await.status, 422);
    assert_eq!(gateway.report("svc_pk_nobody", &batches[0]).await.status, 401);
    assert_eq!(gateway.report(&agent.key, &json!({"events": [retrieval("https://a.test/fine")]})).await.status, 201);
    let row = |org: &Uuid, status: i16, code: &str, field: &str, rule: &str, requests: i64| -> Row {
        (*org, "/events".to_owned(), status, code.to_owned(), field.to_owned(), rule.to_owned(), requests)
    };
    let (agent, other) = (agent.id.0, other.id.0);
    let mut expected = vec![
        row(&agent, 400, "invalid_body", "", "", 1),
        row(&agent, 403, "missing_scope", "", "", 1),
        row(&agent, 422, "invalid_event", "timestamp", "required", 2),
        row(&agent, 422, "invalid_event", "type", "required", 1),
        row(&other, 422, "invalid_event", "timestamp", "required", 1),
        row(&other, 422, "invalid_event", "type", "required", 1),
    ];
    expected.sort();
    eventually("the refusals are written", || async {
        let listed = "SELECT organization_id, route, status, code, field, rule, requests FROM refused_reports";
        let mut rows: Vec<Row> = sqlx::query_as(listed).fetch_all(&gateway.stores.pool).await.unwrap();
        rows.sort();
        (rows == expected).then_some(())
    })
    .await;
    let kept: String = sqlx::query_scalar("SELECT string_agg(r::text, ' ') FROM refused_reports r")
        .fetch_one(&gateway.stores.pool)
        .await
        .unwrap();
    assert!(!kept.contains("planted"), "{kept}");
}
