//! Partner provisioning: who may, what comes of it, whose domains can be attested.

use crate::people::{ORGANIZATIONS, PROVISIONED};
use crate::test_app::{Answer, NOBODY, Shows, TestApp};
use schemas::identity::{OrgType, Scope};
use schemas::ids::OrgId;
use schemas::site::Site;
use serde_json::{Value, json};
use service_kit::directory::Directory;

async fn partner(app: &TestApp, name: &str) -> (OrgId, String) {
    let (org, key) = app.platform(name).await;
    app.trust(org, true).await;
    (org, key)
}

async fn provision(app: &TestApp, key: &str, body: &Value) -> Answer {
    app.post(Shows::Key(key), PROVISIONED, body).await
}

async fn attest(app: &TestApp, key: &str, org: &str, domain: &str) -> Answer {
    app.post(Shows::Key(key), &format!("{PROVISIONED}/{org}/domains/{domain}/attest"), &json!({})).await
}

async fn owner_of(app: &TestApp, domain: &str) -> Option<OrgId> {
    let site = Site::from_domain(domain).unwrap();
    Directory::new(app.stores.pool.clone()).owner_of(&site).await.unwrap().map(|owner| owner.id)
}

#[tokio::test]
async fn a_trusted_partner_provisions_an_owner_who_claims_it_and_the_partner_is_told() {
    let app = TestApp::open_at_a_standstill().await;
    let (_, key) = partner(&app, "partner").await;
    let (_, other) = partner(&app, "other").await;
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
    assert_eq!(domain["verified_at"], app.told());
    assert_eq!((&invite["email"], &invite["role"]), (&json!("ada@a.test"), &json!("owner")));
    assert_eq!(owner_of(&app, "www.a.test").await, Some(org));
    assert_eq!(app.audited(org).await, ["organization.created", "domain.registered", "domain.verified", "invite.created"]);
    assert_eq!(app.outbox(&hook).await, Vec::<Value>::new(), "provisioned is not claimed");

    let (ada, token) = (app.person("ada@a.test").await, app.token_of(invite).await);
    assert_eq!(app.get(ada.shows(), ORGANIZATIONS).await.body, json!([]));
    assert_eq!(app.claim(&ada, &token).await.status, 200);
    assert_eq!(app.get(ada.shows(), ORGANIZATIONS).await.body, json!([organization]));
    let told = app.outbox(&hook).await;
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["type"], &told[0]["created_at"]), (&json!("invite.claimed"), &app.told()));
    let claimed = json!({"id": invite["id"], "organization_id": org, "email": "ada@a.test", "claimed_at": app.told()});
    assert_eq!(told[0]["data"], json!({"invite": claimed}));
    assert_eq!(app.claim(&ada, &token).await.status, 409);
    assert_eq!(app.outbox(&hook).await.len(), 1, "told once");
    let bob = app.joined(&ada, &org.to_string(), "bob@a.test", "member").await;
    assert_eq!(app.members(&bob, &org.to_string()).await.len(), 2);
    assert_eq!(app.outbox(&hook).await.len(), 1, "whom the owner invites is the owner's business");
    assert_eq!(app.outbox(&others_hook).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_claim_that_cannot_be_told_does_not_happen() {
    let app = TestApp::open().await;
    let (_, key) = partner(&app, "partner").await;
    app.subscribe(&key, &["invite.claimed"]).await;
    let body = json!({"name": "Owner", "domain": "a.test", "admin_email": "ada@a.test"});
    let provisioned = provision(&app, &key, &body).await;
    let (ada, token) = (app.person("ada@a.test").await, app.token_of(&provisioned.body["invite"]).await);
    for table in ["webhook_deliveries", "audit_log"] {
        let refuse = format!(
            "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$; \
             CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(refuse)).execute(&app.stores.pool).await.unwrap();
        assert_eq!(app.claim(&ada, &token).await.refusal(), (500, "internal"), "{table}");
        assert_eq!(app.get(ada.shows(), ORGANIZATIONS).await.body, json!([]), "{table}");
        let allow = format!("DROP TRIGGER refuse ON {table}");
        sqlx::raw_sql(sqlx::AssertSqlSafe(allow)).execute(&app.stores.pool).await.unwrap();
    }
    assert_eq!(app.claim(&ada, &token).await.status, 200, "the same invite can be claimed now");
}

#[tokio::test]
async fn without_the_scope_or_the_trust_nothing_is_provisioned() {
    let app = TestApp::open().await;
    let (org, trusted) = partner(&app, "partner").await;
    let (_, untrusted) = app.platform("untrusted").await;
    let scopes = [Scope::IdentityRead, Scope::IdentityWrite, Scope::TelemetryRead, Scope::TelemetryWrite];
    let unscoped = app.seed().key(org, OrgType::Platform, &scopes).await;
    let ada = app.session("ada@a.test", &[org]).await;
    let before = app.count("SELECT count(*) FROM organizations").await;
    let body = json!({"name": "Owner", "domain": "a.test", "attest": true});
    let refused = [
        (Shows::Key(&unscoped), (403, "missing_scope")),
        (Shows::Key(&untrusted), (403, "forbidden")),
        (Shows::Session(&ada), (401, "unauthenticated")),
        (Shows::Nothing, (401, "unauthenticated")),
    ];
    for (shows, refusal) in refused {
        for body in [&body, &json!({}), &json!({"name": 7})] {
            assert_eq!(app.post(shows, PROVISIONED, body).await.refusal(), refusal);
        }
        let path = format!("{PROVISIONED}/{org}/domains/{NOBODY}/attest");
        assert_eq!(app.post(shows, &path, &json!({})).await.refusal(), refusal);
    }
    assert_eq!(app.count("SELECT count(*) FROM organizations").await, before);
    assert_eq!(provision(&app, &trusted, &body).await.status, 201);
    app.trust(org, false).await;
    assert_eq!(provision(&app, &trusted, &body).await.refusal(), (403, "forbidden"), "trust ends at once");
}

#[tokio::test]
async fn a_partner_attests_domains_of_owners_it_provisioned_and_of_nobody_else() {
    let app = TestApp::open().await;
    let ((_, key), (_, other)) = (partner(&app, "partner").await, partner(&app, "other").await);
    let provisioned = provision(&app, &key, &json!({"name": "Owner", "domain": "a.test"})).await.body;
    let organization = &provisioned["organization"];
    assert_eq!((&provisioned["invite"], &organization["domains"][0]["verified"]), (&Value::Null, &json!(false)));
    assert_eq!(owner_of(&app, "a.test").await, None, "provisioning alone verifies nothing");
    let (org, domain) = (organization["id"].as_str().unwrap(), organization["domains"][0]["id"].as_str().unwrap());
    let ada = app.person("ada@b.test").await;
    let stranger = app.founded(&ada, "b.test").await;
    let strangers = stranger.body["domains"][0]["id"].as_str().unwrap();

    let absent = attest(&app, &key, NOBODY, NOBODY).await;
    assert_eq!(absent.refusal(), (404, "not_found"));
    for (key, org, domain) in [
        (&other, org, domain),
        (&key, stranger.text("id"), strangers),
        (&key, org, strangers),
        (&key, stranger.text("id"), domain),
        (&key, org, NOBODY),
        (&key, "x", domain),
        (&key, org, "%00"),
    ] {
        assert_eq!(attest(&app, key, org, domain).await, absent, "{org} {domain}");
    }
    assert_eq!((owner_of(&app, "a.test").await, owner_of(&app, "b.test").await), (None, None));
    let attested = attest(&app, &key, org, domain).await;
    assert_eq!((attested.status, attested.text("verification_method")), (200, "attested"));
    assert_eq!(attest(&app, &key, org, domain).await, attested, "a second time changes nothing");
    assert_eq!(owner_of(&app, "a.test").await, Some(org.parse().unwrap()));
    let changes = app.audited(org.parse().unwrap()).await;
    assert_eq!(changes, ["organization.created", "domain.registered", "domain.verified"]);
}

#[tokio::test]
async fn a_domain_that_somebody_else_owns_cannot_be_provisioned_or_attested() {
    let app = TestApp::open().await;
    let (_, key) = partner(&app, "partner").await;
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
    assert_eq!(attest(&app, &key, org, domain).await.refusal(), (409, "conflict"), "a host of what is owned by now");
    assert_eq!(app.count("SELECT count(*) FROM organizations").await, before, "a refusal leaves nothing behind");
    assert_eq!(owner_of(&app, "www.a.test").await, Some(owner));
}

#[tokio::test]
async fn who_comes_after_an_earlier_owner_does_not_see_the_history() {
    let app = TestApp::open_at_a_standstill().await;
    let (_, key) = partner(&app, "partner").await;
    let (earlier, _) = app.owner_of("a.test").await;
    let release =
        "UPDATE domains SET verified_at = $2 - interval '2 days', released_at = $2 - interval '1 day' WHERE organization_id = $1";
    sqlx::query(release).bind(earlier.0).bind(app.clock.now()).execute(&app.stores.pool).await.unwrap();
    for (domain, visible_from) in [("a.test", Some(app.clock.now())), ("fresh.test", None)] {
        let provisioned = provision(&app, &key, &json!({"name": "Owner", "domain": domain, "attest": true})).await.body;
        let org = OrgId(provisioned["organization"]["id"].as_str().unwrap().parse().unwrap());
        let owned = Directory::new(app.stores.pool.clone()).owned_sites(org).await.unwrap();
        assert_eq!(owned.iter().map(|site| site.visible_from).collect::<Vec<_>>(), [visible_from], "{domain}");
    }
}

#[tokio::test]
async fn every_fault_of_a_provisioning_is_told_at_once() {
    let app = TestApp::open().await;
    let (_, key) = partner(&app, "partner").await;
    let before = app.count("SELECT count(*) FROM organizations").await;
    for (body, faults) in [
        (json!({}), 2),
        (json!({"name": "\u{0}", "domain": "localhost", "admin_email": "x"}), 3),
        (json!({"name": "A", "domain": "a.test", "admin_email": "a@b.test\r\nBcc: c@d.test"}), 1),
        (json!({"name": "A", "domain": "a.test", "attest": "yes"}), 1),
        (json!({"name": "A", "domain": "a.test", "org_type": "platform"}), 1),
        (json!({"name": "A", "domain": "a.test", "verified": true}), 1),
    ] {
        let refused = provision(&app, &key, &body).await;
        assert_eq!(refused.refusal(), (422, "invalid_request"), "{body}");
        assert_eq!(refused.body["errors"].as_array().unwrap().len(), faults, "{body}");
    }
    assert_eq!(app.count("SELECT count(*) FROM organizations").await, before);
}
