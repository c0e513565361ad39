//! Bulk delegation requests (threat rows G11, G12).

use crate::test_app::{Credentials, Identity, REQUESTS, Requests as _};
use serde_json::{Value, json};

fn bulk() -> String {
    format!("{REQUESTS}/bulk")
}

fn statuses(body: &Value) -> Vec<&str> {
    body["results"].as_array().unwrap().iter().map(|result| result["status"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn g11_bulk_items_succeed_or_fail_independently() {
    let app = Identity::open().await;
    let (_, partner) = app.platform("partner").await;
    let mut hooks = Vec::new();
    let domains: Vec<String> = (0..40).map(|n| format!("owner{n}.test")).collect();
    for domain in &domains {
        let (_, key) = app.owner_of(domain).await;
        hooks.push(app.subscribe(&key, &["delegation_request.created"]).await);
    }
    let mut items: Vec<Value> = domains.iter().map(|domain| json!({"domain": domain})).collect();
    items.extend((0..30).map(|n| json!({"domain": format!("nobody{n}.test")})));
    items.extend((0..20).map(|n| json!({"domain": format!("WWW.owner{n}.test.")})));
    items.extend([
        json!({"domain": "localhost"}),
        json!({"domain": 7}),
        json!({}),
        json!(null),
        json!("owner0.test"),
        json!(["owner0.test"]),
        json!({"domain": "owner0.test", "scopes": ["identity:write"]}),
        json!({"domain": "owner0.test", "id": "x"}),
        json!({"domain": "\u{0}"}),
        json!({"domain": ""}),
    ]);
    assert_eq!(items.len(), 100);
    let answered = app.post(Credentials::Key(&partner), &bulk(), &json!(items)).await;
    assert_eq!(answered.status, 200, "{}", answered.body);
    assert_eq!(answered.body["summary"], json!({"total": 100, "created": 40, "not_found": 30, "conflict": 20, "error": 10}));
    let expected = [vec!["created"; 40], vec!["not_found"; 30], vec!["conflict"; 20], vec!["error"; 10]].concat();
    assert_eq!(statuses(&answered.body), expected);
    for (index, result) in answered.body["results"].as_array().unwrap().iter().enumerate() {
        assert_eq!(
            (&result["index"], &result["domain"]),
            (&json!(index), &items[index].get("domain").cloned().unwrap_or_default())
        );
        assert_eq!(result.get("request").is_some(), result["status"] == "created", "{result}");
        assert_eq!(result["error"]["detail"].is_string(), result["status"] != "created", "{result}");
    }
    let repeated = app.post(Credentials::Key(&partner), &bulk(), &json!(items[..40])).await;
    assert_eq!(repeated.body["summary"], json!({"total": 40, "created": 0, "not_found": 0, "conflict": 40, "error": 0}));
    let none = app.post(Credentials::Key(&partner), &bulk(), &json!([])).await;
    let nothing = json!({"total": 0, "created": 0, "not_found": 0, "conflict": 0, "error": 0});
    assert_eq!(none.body, json!({"results": [], "summary": nothing}));
    for (hook, result) in hooks.iter().zip(answered.body["results"].as_array().unwrap()) {
        let sent = app.outbox(hook).await;
        assert_eq!(sent.len(), 1, "g12: one event for one created request");
        assert_eq!(sent[0]["data"]["delegation_request"], result["request"]);
    }
}

#[tokio::test]
async fn database_errors_roll_back_only_their_item() {
    let app = Identity::open().await;
    let (partner, key) = app.platform("partner").await;
    let mut hooks = Vec::new();
    for domain in ["a.test", "cursed.test", "b.test"] {
        let (_, owner) = app.owner_of(domain).await;
        hooks.push(app.subscribe(&owner, &["delegation_request.created"]).await);
    }
    // The audit row is an item's last statement, so everything before it must be rolled back.
    sqlx::raw_sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'sqlx_secret_text'; END $$; \
         CREATE TRIGGER refuse BEFORE INSERT ON audit_log FOR EACH ROW WHEN (NEW.detail ->> 'domain' = 'cursed.test') \
         EXECUTE FUNCTION refuse()",
    )
    .execute(&app.stores.pool)
    .await
    .unwrap();
    let items = json!([{"domain": "a.test"}, {"domain": "cursed.test"}, {"domain": "b.test"}]);
    let answered = app.post(Credentials::Key(&key), &bulk(), &items).await;
    assert_eq!(statuses(&answered.body), ["created", "error", "created"], "{}", answered.body);
    assert_eq!(answered.body["summary"], json!({"total": 3, "created": 2, "not_found": 0, "conflict": 0, "error": 1}));
    assert!(!answered.body.to_string().contains("sqlx_secret_text"), "{}", answered.body);
    let mut sent = Vec::new();
    for hook in &hooks {
        sent.push(app.outbox(hook).await.len());
    }
    assert_eq!(sent, [1, 0, 1], "no message for the item that was rolled back");
    assert_eq!(app.count("SELECT count(*) FROM delegation_requests").await, 2);
    assert_eq!(app.audited(partner).await.len(), 2);
}
