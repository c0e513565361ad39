//! Founding, listing and showing organisations (threat rows I1, I2, I3, X11 to X13).

use crate::people::{ORGANIZATIONS, Person};
use crate::test_app::{NOBODY, Shows, TestApp};
use schemas::ids::OrgId;
use schemas::site::Site;
use serde_json::{Value, json};
use service_kit::directory::Directory;

async fn found(app: &TestApp, by: &Person, body: &Value) -> crate::test_app::Answer {
    app.post(by.shows(), ORGANIZATIONS, body).await
}

#[tokio::test]
async fn a_person_founds_a_content_owner_and_owns_it() {
    let app = TestApp::open_at_a_standstill().await;
    let (ada, eve) = (app.person("ada@a.test").await, app.person("eve@b.test").await);
    let founded = app.founded(&ada, "Bücher.test.").await;
    let org: OrgId = founded.text("id").parse().unwrap();
    let domains = founded.body["domains"].as_array().unwrap().clone();
    assert_eq!(domains.len(), 1);
    assert_eq!(
        founded.body,
        json!({
            "id": org, "name": "Bücher.test.", "org_type": "content_owner", "domain": "xn--bcher-kva.test",
            "domains": [{"id": domains[0]["id"], "organization_id": org, "domain": "xn--bcher-kva.test", "verified": false,
                         "verification_method": null, "verification_token": domains[0]["verification_token"], "created_at": app.told(), "verified_at": null}],
            "domain_count": 1, "created_at": app.told(),
            "settings": {"organization_id": org, "share_sessions_via_click_tokens": false, "visible_in_click_token_lookups": false},
        })
    );
    assert_eq!(app.members(&ada, founded.text("id")).await, [("ada@a.test".to_owned(), "owner".to_owned())]);
    assert_eq!(app.audited(org).await, ["organization.created", "member.added", "domain.registered"]);
    let authors = "SELECT count(*) FROM audit_log a JOIN users u ON u.id = a.actor_id AND a.actor_kind = 'user' AND u.email = 'ada@a.test' \
         WHERE a.organization_id IS NOT NULL";
    assert_eq!(app.count(authors).await, 3);

    let second = app.founded(&ada, "second.test").await;
    assert_eq!(app.get(ada.shows(), ORGANIZATIONS).await.body, json!([founded.body, second.body]));
    assert_eq!(app.get(ada.shows(), &format!("{ORGANIZATIONS}/{org}")).await.body, founded.body);
    assert_eq!(app.get(eve.shows(), ORGANIZATIONS).await.body, json!([]));
    let absent = app.get(ada.shows(), &format!("{ORGANIZATIONS}/{NOBODY}")).await;
    assert_eq!(absent.refusal(), (404, "not_found"));
    for id in [founded.text("id"), "x", "%00", "..%2F..", "0"] {
        assert_eq!(app.get(eve.shows(), &format!("{ORGANIZATIONS}/{id}")).await, absent, "{id}");
    }
}

#[tokio::test]
async fn i1_a_key_founds_nothing_and_the_other_types_are_asked_for_elsewhere() {
    let app = TestApp::open().await;
    let ada = app.person("ada@a.test").await;
    let (_, key) = app.platform("platform").await;
    let before = app.count("SELECT count(*) FROM organizations").await;
    let body = |org_type: &str| json!({"name": "A", "org_type": org_type, "domain": "a.test"});
    for shows in [Shows::Key(&key), Shows::Session(&key), Shows::Nothing] {
        let refused = app.post(shows, ORGANIZATIONS, &body("content_owner")).await;
        assert_eq!(refused.refusal(), (401, "unauthenticated"));
    }
    let Shows::Session(session) = ada.shows() else { panic!("a person shows a session") };
    let both = app.post(Shows::Both(&key, session), ORGANIZATIONS, &body("content_owner")).await;
    assert_eq!(both.refusal(), (401, "unauthenticated"), "a key beside a session decides");
    for org_type in ["platform", "agent"] {
        let path = format!("/api/v1/identity/{org_type}-access-requests");
        for body in [body(org_type), json!({"org_type": org_type})] {
            let refused = found(&app, &ada, &body).await;
            assert_eq!(refused.refusal(), (403, "forbidden"));
            assert_eq!(refused.text("see"), path);
            assert!(refused.text("detail").contains(&path), "{}", refused.body);
        }
        let asked = app.post(ada.shows(), &path, &json!({})).await;
        assert_eq!(asked.refusal(), (422, "invalid_request"), "the path that is named is served");
    }
    assert_eq!(app.count("SELECT count(*) FROM organizations").await, before);
}

#[tokio::test]
async fn i2_members_that_are_not_the_callers_to_set_are_refused() {
    let app = TestApp::open().await;
    let ada = app.person("ada@a.test").await;
    for (member, value) in [
        ("id", json!(NOBODY)),
        ("verified", json!(true)),
        ("domains", json!([{"domain": "a.test", "verified": true}])),
        ("settings", json!({"visible_in_click_token_lookups": true})),
        ("visible_in_click_token_lookups", json!(true)),
        ("is_trusted_partner", json!(true)),
        ("provisioned_by", json!(NOBODY)),
        ("created_at", json!("2020-01-01T00:00:00Z")),
    ] {
        let mut body = json!({"name": "A", "org_type": "content_owner", "domain": "a.test"});
        body[member] = value;
        assert_eq!(found(&app, &ada, &body).await.refusal(), (422, "invalid_request"), "{member}");
    }
    assert_eq!(app.get(ada.shows(), ORGANIZATIONS).await.body, json!([]), "nothing is stored");
    assert_eq!(app.count("SELECT count(*) FROM domains").await, 0);
}

#[tokio::test]
async fn every_fault_of_an_organisation_is_told_at_once() {
    let app = TestApp::open().await;
    let ada = app.person("ada@a.test").await;
    let fields = |body: &Value| -> Vec<String> {
        body["errors"].as_array().unwrap().iter().map(|fault| fault["field"].as_str().unwrap().to_owned()).collect()
    };
    for (body, faulty) in [
        (json!({}), vec!["org_type", "name", "domain"]),
        (json!({"name": "", "org_type": "owner", "domain": "localhost"}), vec!["org_type", "name", "domain"]),
        (json!({"name": "a\u{1b}[2J", "org_type": "content_owner", "domain": "*.a.test"}), vec!["name", "domain"]),
        (json!({"name": "nul \u{0}", "org_type": "content_owner", "domain": "a.test"}), vec!["name"]),
        (json!({"name": "\u{202e}tset.a", "org_type": "content_owner", "domain": "a.test"}), vec!["name"]),
        (json!({"name": "a\u{2028}b", "org_type": "content_owner", "domain": "a.test"}), vec!["name"]),
        (json!({"name": " \u{a0}", "org_type": "content_owner", "domain": "a.test"}), vec!["name"]),
        (json!({"name": "x".repeat(201), "org_type": "content_owner", "domain": "127.0.0.1"}), vec!["name", "domain"]),
        (json!({"name": "A", "org_type": "content_owner", "domain": "a\u{0}.test"}), vec!["domain"]),
    ] {
        let refused = found(&app, &ada, &body).await;
        assert_eq!(refused.refusal(), (422, "invalid_request"), "{body}");
        assert_eq!(fields(&refused.body), faulty, "{body}");
    }
    for text in ["", "null", "[]", "[\"A\",\"content_owner\",\"a.test\"]", "{"] {
        let refused = app.send(reqwest::Method::POST, ada.shows(), ORGANIZATIONS, text).await;
        assert_eq!(refused.refusal(), (400, "invalid_body"), "{text:?}");
    }
    let odd = found(&app, &ada, &json!({"name": "A<script> \u{e9}", "org_type": "content_owner", "domain": "a.test"})).await;
    assert_eq!((odd.status, odd.text("name")), (201, "A<script> \u{e9}"), "what is printable is kept as it was sent");
}

#[tokio::test]
async fn i3_registering_a_domain_gives_nothing_away() {
    let app = TestApp::open().await;
    let (owner, _) = app.owner_of("a.test").await;
    let eve = app.person("eve@b.test").await;
    let squatter = app.founded(&eve, "a.test").await;
    let directory = Directory::new(app.stores.pool.clone());
    let site = Site::from_domain("www.a.test").unwrap();
    assert_eq!(directory.owner_of(&site).await.unwrap().unwrap().id, owner);
    let squatter: OrgId = squatter.text("id").parse().unwrap();
    assert_eq!(directory.owned_sites(squatter).await.unwrap(), []);
    let nobodys = app.founded(&eve, "c.test").await;
    assert_eq!(nobodys.body["domains"][0]["verified"], false);
    assert_eq!(directory.owner_of(&Site::from_domain("c.test").unwrap()).await.unwrap(), None);
}
