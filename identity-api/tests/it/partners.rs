//! Partners: create organizations and attest domains.

use crate::people::People as _;
use crate::people::{ORGANIZATIONS, PROVISIONED};
use crate::test_app::{Credentials, Identity, Requests as _, TestApp, TestResponse, UNKNOWN_ID};
use schemas::ids::OrgId;
use schemas::site::Site;
use serde_json::{Value, json};
use service_kit::identity_tables::IdentityTables;

async fn provision(app: &TestApp, key: &str, body: &Value) -> TestResponse {
    app.post(Credentials::Key(key), PROVISIONED, body).await
}

async fn attest(app: &TestApp, key: &str, org: &str, domain: &str) -> TestResponse {
    app.post(Credentials::Key(key), &format!("{PROVISIONED}/{org}/domains/{domain}/attest"), &json!({})).await
}

async fn owner_of(app: &TestApp, domain: &str) -> Option<OrgId> {
    let site = Site::from_domain(domain).unwrap();
    IdentityTables::new(app.stores.pool.clone()).owner_of(&site).await.unwrap().map(|owner| owner.id)
}

#[tokio::test]
async fn partners_create_organizations_and_see_the_claim() {
    let app = Identity::open_with_manual_clock().await;
    let (_, key) = app.partner("partner").await;
    let (_, other) = app.partner("other").await;
    let hook = app.subscribe(&key, &["invite.claimed"]).await;
    let others_hook = app.subscribe(&other, &["invite.claimed"]).await;
    let body = json!({"name": "Owner", "domain": "A.test", "attest": true, "admin_email": "Ada@A.test"});
    let provisioned = provision(&app, &key, &body).await;
    assert_eq!(provisioned.status, 201, "{}", provisioned.body);
    let (organization, invite) = (&provisioned.body["organization"], &provisioned.body["invite"]);
    let org: OrgId = organization["id"].as_str().unwrap().parse().unwrap();
    assert_eq!((&organization["org_type"], &organization["domain"]), (&json!("content_owner"), &json!("a.test")));
    let domain = &organization["domains"][0];
    assert_eq!((&domain["verified"], &domain["verification_method"]), (&json!(true), &json!("attested")));
    assert_eq!(domain["verified_at"], app.now_text());
    assert_eq!((&invite["email"], &invite["role"]), (&json!("ada@a.test"), &json!("owner")));
    assert_eq!(owner_of(&app, "www.a.test").await, Some(org));
    assert_eq!(app.audited(org).await, ["organization.created", "domain.registered", "domain.verified", "invite.created"]);
    assert_eq!(app.outbox(&hook).await, Vec::<Value>::new(), "no message before the claim");

    let (ada, token) = (app.person("ada@a.test").await, app.token_of(invite).await);
    assert_eq!(app.get(ada.credentials(), ORGANIZATIONS).await.body, json!([]));
    assert_eq!(app.claim(&ada, &token).await.status, 200);
    assert_eq!(app.get(ada.credentials(), ORGANIZATIONS).await.body, json!([organization]));
    let told = app.outbox(&hook).await;
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["type"], &told[0]["created_at"]), (&json!("invite.claimed"), &app.now_text()));
    let claimed = json!({"id": invite["id"], "organization_id": org, "email": "ada@a.test", "claimed_at": app.now_text()});
    assert_eq!(told[0]["data"], json!({"invite": claimed}));
    assert_eq!(app.claim(&ada, &token).await.status, 409);
    assert_eq!(app.outbox(&hook).await.len(), 1, "one message");
    let bob = app.joined(&ada, &org.to_string(), "bob@a.test", "member").await;
    assert_eq!(app.members(&bob, &org.to_string()).await.len(), 2);
    assert_eq!(app.outbox(&hook).await.len(), 1, "no message for the owner's invites");
    assert_eq!(app.outbox(&others_hook).await, Vec::<Value>::new());
}

#[tokio::test]
async fn partners_attest_domains_only_for_their_own_customers() {
    let app = Identity::open().await;
    let ((_, key), (_, other)) = (app.partner("partner").await, app.partner("other").await);
    let provisioned = provision(&app, &key, &json!({"name": "Owner", "domain": "a.test"})).await.body;
    let organization = &provisioned["organization"];
    assert_eq!((&provisioned["invite"], &organization["domains"][0]["verified"]), (&Value::Null, &json!(false)));
    assert_eq!(owner_of(&app, "a.test").await, None, "creating verifies nothing");
    let (org, domain) = (organization["id"].as_str().unwrap(), organization["domains"][0]["id"].as_str().unwrap());
    let ada = app.person("ada@b.test").await;
    let stranger = app.create_organization(&ada, "b.test").await;
    let strangers = stranger.body["domains"][0]["id"].as_str().unwrap();

    let absent = attest(&app, &key, UNKNOWN_ID, UNKNOWN_ID).await;
    assert_eq!(absent.refusal(), (404, "not_found"));
    for (key, org, domain) in [
        (&other, org, domain),
        (&key, stranger.text("id"), strangers),
        (&key, org, strangers),
        (&key, stranger.text("id"), domain),
    ] {
        assert_eq!(attest(&app, key, org, domain).await, absent, "{org} {domain}");
    }
    assert_eq!((owner_of(&app, "a.test").await, owner_of(&app, "b.test").await), (None, None));
    let attested = attest(&app, &key, org, domain).await;
    assert_eq!((attested.status, attested.text("verification_method")), (200, "attested"));
    assert_eq!(attest(&app, &key, org, domain).await, attested, "repeating it changes nothing");
    assert_eq!(owner_of(&app, "a.test").await, Some(org.parse().unwrap()));
    let changes = app.audited(org.parse().unwrap()).await;
    assert_eq!(changes, ["organization.created", "domain.registered", "domain.verified"]);
}

#[tokio::test]
async fn cannot_attest_other_organizations_domains() {
    let app = Identity::open().await;
    let (_, key) = app.partner("partner").await;
    let early = provision(&app, &key, &json!({"name": "Early", "domain": "shop.a.test"})).await.body;
    let early = &early["organization"];
    let (owner, _) = app.owner_of("a.test").await;
    let before = app.count("SELECT count(*) FROM organizations").await;
    for domain in ["a.test", "A.TEST.", "www.a.test", "deep.shop.a.test"] {
        for attest in [true, false] {
            let refused = provision(&app, &key, &json!({"name": "Late", "domain": domain, "attest": attest})).await;
            assert_eq!(refused.refusal(), (409, "conflict"), "{domain} {attest}");
        }
    }
    let (org, domain) = (early["id"].as_str().unwrap(), early["domains"][0]["id"].as_str().unwrap());
    assert_eq!(attest(&app, &key, org, domain).await.refusal(), (409, "conflict"), "a subdomain of an owned domain");
    assert_eq!(app.count("SELECT count(*) FROM organizations").await, before, "a rejected call leaves nothing behind");
    assert_eq!(owner_of(&app, "www.a.test").await, Some(owner));
}
