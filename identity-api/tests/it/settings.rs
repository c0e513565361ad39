//! Settings of an organization (threat row I6).

use crate::test_app::{Credentials, Identity, Requests as _, SETTINGS, TestApp, TestResponse};
use reqwest::Method;
use schemas::identity::OrgType;
use serde_json::{Value, json};

async fn patch(app: &TestApp, key: &str, body: &Value) -> TestResponse {
    app.send(Method::PATCH, Credentials::Key(key), SETTINGS, body.to_string()).await
}

#[tokio::test]
async fn settings_are_off_by_default() {
    let app = Identity::open().await;
    for (org_type, flag, other) in [
        (OrgType::Agent, "share_sessions_via_click_tokens", "visible_in_click_token_lookups"),
        (OrgType::Platform, "share_sessions_via_click_tokens", "visible_in_click_token_lookups"),
        (OrgType::ContentOwner, "visible_in_click_token_lookups", "share_sessions_via_click_tokens"),
    ] {
        let (org, key) = app.org_of("one", org_type).await;
        let settings = |value: bool| json!({"organization_id": org, flag: value, other: false});
        assert_eq!(app.get(Credentials::Key(&key), SETTINGS).await.body, settings(false));
        for value in [true, true, false, true] {
            let changed = patch(&app, &key, &json!({flag: value})).await;
            assert_eq!((changed.status, changed.body), (200, settings(value)));
            assert_eq!(app.get(Credentials::Key(&key), SETTINGS).await.body, settings(value));
        }
        assert_eq!(app.audited(org).await.len(), 3, "an unchanged value is not recorded");
        for body in [json!({other: true}), json!({flag: false, other: true}), json!({other: false})] {
            assert_eq!(patch(&app, &key, &body).await.refusal(), (403, "forbidden"), "{body}");
        }
        assert_eq!(app.get(Credentials::Key(&key), SETTINGS).await.body, settings(true), "a rejected body changes nothing");
    }
}

/// Changes another column of the same row concurrently. Each statement must keep the other's value.
#[tokio::test(flavor = "multi_thread")]
async fn i6_concurrent_changes_to_two_settings_both_apply() {
    const ROUNDS: usize = 100;
    let app = Identity::open().await;
    let (org, owner) = app.org("owner").await;
    for round in 0..ROUNDS {
        let (visible, shares) = (round % 2 == 0, round % 3 == 0);
        let other = sqlx::query("UPDATE organizations SET share_sessions_via_click_tokens = $2 WHERE id = $1")
            .bind(org.0)
            .bind(shares)
            .execute(&app.stores.pool);
        let body = json!({"visible_in_click_token_lookups": visible});
        let (changed, other) = tokio::join!(patch(&app, &owner, &body), other);
        assert_eq!((changed.status, other.unwrap().rows_affected()), (200, 1));
        let expected =
            json!({"organization_id": org, "visible_in_click_token_lookups": visible, "share_sessions_via_click_tokens": shares});
        assert_eq!(app.get(Credentials::Key(&owner), SETTINGS).await.body, expected, "round {round}");
    }
}
