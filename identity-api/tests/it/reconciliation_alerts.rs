//! Thresholds of reconciliation alerts, and their webhook messages.

use crate::test_app::{Credentials, Identity, Requests as _};
use reqwest::Method;
use schemas::identity::OrgType;
use serde_json::{Value, json};

const ALERT: &str = "/api/v1/identity/reconciliation-alert";

#[tokio::test]
async fn owners_set_and_remove_thresholds() {
    let app = Identity::open().await;
    let (org, owner) = app.org("owner").await;
    let put = async |key: &str, body: Value| app.send(Method::PUT, Credentials::Key(key), ALERT, body.to_string()).await;
    let (off, on) = (json!({"min_events": null, "share": null}), json!({"min_events": 10, "share": 0.25}));
    assert_eq!(app.get(Credentials::Key(&owner), ALERT).await.body, off);
    for (body, expected) in [(on.clone(), &on), (on.clone(), &on), (json!({}), &off), (off.clone(), &off), (on.clone(), &on)] {
        let changed = put(&owner, body).await;
        assert_eq!((changed.status, &changed.body), (200, expected));
        assert_eq!(&app.get(Credentials::Key(&owner), ALERT).await.body, expected);
    }
    assert_eq!(app.audited(org).await, ["reconciliation_alert.changed"; 3], "unchanged thresholds are not recorded");
    for body in
        [json!({"min_events": 0, "share": 0.1}), json!({"min_events": 1, "share": 1.1}), json!({"share": 0.1}), json!({"x": 1})]
    {
        assert_eq!(put(&owner, body.clone()).await.status, 422, "{body}");
    }
    assert_eq!(app.get(Credentials::Key(&owner), ALERT).await.body, on, "a rejected body changes nothing");
    for org_type in [OrgType::Agent, OrgType::Platform] {
        let (_, key) = app.org_of("other", org_type).await;
        assert_eq!(put(&key, on.clone()).await.refusal(), (403, "forbidden"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn announces_each_exception_once() {
    const ROUNDS: usize = 20;
    let app = Identity::open_with_manual_clock().await;
    let ((owner, owner_key), (_, other_key)) = (app.org("owner").await, app.org("other").await);
    let hook = app.subscribe(&owner_key, &["reconciliation.exception"]).await;
    let others = [
        app.subscribe(&owner_key, &["delegation.created"]).await,
        app.subscribe(&other_key, &["reconciliation.exception"]).await,
    ];
    let (state, second) = (app.second_state().await, app.second_state().await);
    for round in 1..=ROUNDS {
        let insert = "INSERT INTO reconciliation_exceptions (organization_id, day, operator, differing, compared, found_at) \
                      VALUES ($1, '2026-11-01', $2, 7, 9, now())";
        sqlx::query(insert).bind(owner.0).bind(format!("licensee {round:02}")).execute(&app.stores.pool).await.unwrap();
        let (one, two) = tokio::join!(state.announce_exceptions(), second.announce_exceptions());
        assert_eq!(one.unwrap() + two.unwrap(), 1, "round {round}");
        assert_eq!(app.outbox(&hook).await.len(), round);
    }
    let sent = app.outbox(&hook).await;
    let data = json!({"organization_id": owner, "day": "2026-11-01", "operator": "licensee 01", "differing_fetches": 7, "compared_fetches": 9});
    assert_eq!((&sent[0]["type"], &sent[0]["data"]), (&json!("reconciliation.exception"), &json!({"reconciliation": data})));
    for other in &others {
        assert_eq!(app.outbox(other).await, Vec::<Value>::new());
    }
}
