//! Dead letters as operators see them. `operators_retries_restore_a_record_once` tests the worker's part.

use crate::people::{People as _, Person};
use crate::test_app::{Credentials, Identity, Requests as _, TestApp, UNKNOWN_ID};
use serde_json::{Value, json};

const ALL: &str = "/api/v1/identity/operator/dead-letters";

async fn dead_letters(app: &TestApp, operator: &Person, query: &str) -> Vec<Value> {
    let listed = app.get(operator.credentials(), &format!("{ALL}{query}")).await.expect(200);
    listed.body.as_array().unwrap().clone()
}

/// Writes what a worker writes when it has executed every requested retry.
async fn work(app: &TestApp, restored_as: Option<&str>, refusal: Option<&str>) {
    let executed = "UPDATE dead_letters l SET tried_at = r.requested_at, restored_as = $1, refusal = $2 \
                    FROM dead_letter_retries r WHERE r.dead_letter_id = l.id";
    sqlx::query(executed).bind(restored_as).bind(refusal).execute(&app.stores.pool).await.unwrap();
}

#[tokio::test]
async fn operators_list_and_retry_dead_letters() {
    let app = Identity::open().await;
    let operator = app.operator("op@svc.test").await;
    let (owner, key) = app.org("news.test").await;
    let planted = "INSERT INTO dead_letters (id, origin, reason, rejected_at, bytes, organization_id, request_id) VALUES \
                   (gen_random_uuid(), 'log/0/7', 'not a record', '2026-11-01T10:00:00Z', 12, $1, 'request-7'), \
                   (gen_random_uuid(), 'log/0/6', 'unknown click token', '2026-11-01T09:00:00Z', 34, NULL, NULL)";
    sqlx::query(planted).bind(owner.0).execute(&app.stores.pool).await.unwrap();
    let all = dead_letters(&app, &operator, "").await;
    let mut newest = all[0].clone();
    let id = newest["id"].take();
    let retry = format!("{ALL}/{}/retry", id.as_str().unwrap());
    assert_eq!(
        newest,
        json!({"id": null, "origin": "log/0/7", "reason": "not a record", "rejected_at": "2026-11-01T10:00:00.000Z", "bytes": 12,
               "organization_id": owner.to_string(), "organization_name": "news.test", "request_id": "request-7", "status": "open",
               "restored_as": null, "refusal": null})
    );
    assert_eq!((all.len(), &all[1]["origin"], &all[1]["organization_name"]), (2, &json!("log/0/6"), &Value::Null));
    for (query, origins) in [
        (String::new(), vec!["log/0/7", "log/0/6"]),
        (format!("?organization_id={owner}"), vec!["log/0/7"]),
        (format!("?organization_id={UNKNOWN_ID}"), vec![]),
        ("?restored=true".to_owned(), vec![]),
        ("?restored=false&limit=1&offset=1".to_owned(), vec!["log/0/6"]),
    ] {
        let found = dead_letters(&app, &operator, &query).await;
        assert_eq!(found.iter().map(|letter| letter["origin"].as_str().unwrap()).collect::<Vec<_>>(), origins, "{query}");
    }

    // Pressing twice requests one retry.
    for _ in 0..2 {
        let retried = app.post(operator.credentials(), &retry, &json!({})).await;
        assert_eq!((retried.status, &retried.body["status"]), (202, &json!("retrying")), "{}", retried.body);
    }
    let requested = "SELECT count(*) FROM audit_log WHERE action = 'dead_letter.retried' AND actor_kind = 'operator'";
    let requested: i64 = sqlx::query_scalar(requested).fetch_one(&app.stores.pool).await.unwrap();
    assert_eq!(requested, 1);
    let trail = app.get(Credentials::Key(&key), "/api/v1/identity/audit?action=dead_letter.retried").await.body;
    assert_eq!(trail[0]["detail"], json!({"origin": "log/0/7"}), "the reporter's audit trail has an entry");

    work(&app, None, Some("not a record")).await;
    let refused = &dead_letters(&app, &operator, "").await[0];
    assert_eq!((&refused["status"], &refused["refusal"]), (&json!("refused"), &json!("not a record")));
    assert_eq!(
        app.post(operator.credentials(), &retry, &json!({})).await.body["status"],
        "retrying",
        "after a refusal, it can be retried"
    );
    work(&app, Some("log/0/99"), None).await;
    let restored = &dead_letters(&app, &operator, "?restored=true").await[0];
    assert_eq!((&restored["status"], &restored["restored_as"]), (&json!("restored"), &json!("log/0/99")));
    assert_eq!(app.post(operator.credentials(), &retry, &json!({})).await.refusal(), (409, "conflict"));
}
