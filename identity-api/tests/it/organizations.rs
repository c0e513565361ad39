//! Organizations: create, list, show (threat row I1).

use crate::people::People as _;
use crate::people::{ORGANIZATIONS, Person};
use crate::test_app::{Credentials, Identity, Requests as _, TestApp, UNKNOWN_ID};
use schemas::ids::OrgId;
use serde_json::{Value, json};

async fn found(app: &TestApp, by: &Person, body: &Value) -> service_kit::testing::TestResponse {
    app.post(by.credentials(), ORGANIZATIONS, body).await
}

#[tokio::test]
async fn people_own_the_content_owners_they_create() {
    let app = Identity::open_with_manual_clock().await;
    let (ada, eve) = (app.person("ada@a.test").await, app.person("eve@b.test").await);
    let founded = app.create_organization(&ada, "Bücher.test.").await;
    let org: OrgId = founded.text("id").parse().unwrap();
    let domains = founded.body["domains"].as_array().unwrap().clone();
    assert_eq!(domains.len(), 1);
    assert_eq!(
        founded.body,
        json!({
            "id": org, "name": "Bücher.test.", "org_type": "content_owner", "domain": "xn--bcher-kva.test",
            "domains": [{"id": domains[0]["id"], "organization_id": org, "domain": "xn--bcher-kva.test", "verified": false,
                         "verification_method": null, "verification_token": domains[0]["verification_token"], "created_at": app.now_text(), "verified_at": null}],
            "domain_count": 1, "created_at": app.now_text(),
            "settings": {"organization_id": org, "share_sessions_via_click_tokens": false, "visible_in_click_token_lookups": false},
        })
    );
    assert_eq!(app.members(&ada, founded.text("id")).await, [("ada@a.test".to_owned(), "owner".to_owned())]);
    assert_eq!(app.audited(org).await, ["organization.created", "member.added", "domain.registered"]);
    let authors = "SELECT count(*) FROM audit_log a JOIN users u ON u.id = a.actor_id AND a.actor_kind = 'user' AND u.email = 'ada@a.test' \
         WHERE a.organization_id IS NOT NULL";
    assert_eq!(app.count(authors).await, 3);

    let second = app.create_organization(&ada, "second.test").await;
    assert_eq!(app.get(ada.credentials(), ORGANIZATIONS).await.body, json!([founded.body, second.body]));
    assert_eq!(app.get(ada.credentials(), &format!("{ORGANIZATIONS}/{org}")).await.body, founded.body);
    assert_eq!(app.get(eve.credentials(), ORGANIZATIONS).await.body, json!([]));
    let absent = app.get(ada.credentials(), &format!("{ORGANIZATIONS}/{UNKNOWN_ID}")).await;
    assert_eq!(absent.refusal(), (404, "not_found"));
    assert_eq!(app.get(eve.credentials(), &format!("{ORGANIZATIONS}/{org}")).await, absent);
}

#[tokio::test]
async fn i1_keys_and_other_types_cannot_create_organizations() {
    let app = Identity::open().await;
    let ada = app.person("ada@a.test").await;
    let (_, key) = app.platform("platform").await;
    let before = app.count("SELECT count(*) FROM organizations").await;
    let body = |org_type: &str| json!({"name": "A", "org_type": org_type, "domain": "a.test"});
    for shows in [Credentials::Key(&key), Credentials::Session(&key), Credentials::Nothing] {
        let refused = app.post(shows, ORGANIZATIONS, &body("content_owner")).await;
        assert_eq!(refused.refusal(), (401, "unauthenticated"));
    }
    let Credentials::Session(session) = ada.credentials() else { panic!("people have a session") };
    let both = app.post(Credentials::Both(&key, session), ORGANIZATIONS, &body("content_owner")).await;
    assert_eq!(both.refusal(), (401, "unauthenticated"), "the key takes precedence");
    for org_type in ["platform", "agent"] {
        let path = format!("/api/v1/identity/{org_type}-access-requests");
        for body in [body(org_type), json!({"org_type": org_type})] {
            let refused = found(&app, &ada, &body).await;
            assert_eq!(refused.refusal(), (403, "forbidden"));
            assert_eq!(refused.text("see"), path);
            assert!(refused.text("detail").contains(&path), "{}", refused.body);
        }
        let asked = app.post(ada.credentials(), &path, &json!({})).await;
        assert_eq!(asked.refusal(), (422, "invalid_request"), "the path in the error exists");
    }
    assert_eq!(app.count("SELECT count(*) FROM organizations").await, before);
}
