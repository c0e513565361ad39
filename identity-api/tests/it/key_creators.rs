//! Permissions to create keys, the scopes they can grant, and removed people's keys (A4, A5, S17).

use crate::admin::{json_of, refusal};
use crate::people::People as _;
use crate::people::{PROVISIONED, Person, members_of};
use crate::test_app::{Credentials, Identity, KEYS, Requests as _, SETTINGS, TestApp, TestResponse, send_request, until_served};
use reqwest::Method;
use schemas::identity::{OrgType, Scope};
use serde_json::{Value, json};

const MINTING: &[&str] = &["identity:read", "identity:write", "telemetry:read"];

/// Creates a key with these scopes and returns its id and the key.
async fn generate(app: &TestApp, shows: Credentials<'_>, scopes: &[&str]) -> (String, String) {
    let created = app.create(shows, &json!({"name": "created", "scopes": scopes})).await;
    assert_eq!(created.status, 201, "{}", created.body);
    (created.text("id").to_owned(), created.text("key").to_owned())
}

async fn remove(app: &TestApp, by: &Person, org: &str, whom: &Person, query: &str) -> TestResponse {
    app.delete(by.credentials(), &format!("{}/{}{query}", members_of(org), whom.id)).await
}

async fn works(app: &TestApp, key: &str) -> bool {
    let listed = app.list(Credentials::Key(key)).await;
    assert!(matches!(listed.status, 200 | 401), "{}", listed.body);
    listed.status == 200
}

#[tokio::test]
async fn a4_members_cannot_create_or_revoke_keys() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    let (id, key) = generate(&app, ada.credentials(), &["telemetry:read", "identity:read"]).await;
    for body in [json!({}), json!({"scopes": ["telemetry:read"]}), json!({"scopes": ["identity:admin"]})] {
        assert_eq!(app.create(bob.credentials(), &body).await.refusal(), (403, "forbidden"), "{body}");
    }
    for id in [id.as_str(), "x", crate::test_app::UNKNOWN_ID] {
        assert_eq!(app.revoke(bob.credentials(), id).await.refusal(), (403, "forbidden"), "{id}");
    }
    assert_eq!(app.list(bob.credentials()).await.body.as_array().unwrap().len(), 1, "members can list them");
    assert!(works(&app, &key).await);
    assert_eq!(app.set_role(&ada, &org, &bob, "owner").await.status, 200);
    generate(&app, bob.credentials(), &["telemetry:read"]).await;
    assert_eq!(app.revoke(bob.credentials(), &id).await.status, 200, "owners can");
}

#[tokio::test]
async fn keys_show_their_creator() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("owner").await;
    let (_, key) = generate(&app, bob.credentials(), MINTING).await;
    let by_key = app.create(Credentials::Key(&key), &json!({"name": "second", "scopes": ["telemetry:read"]})).await;
    let at_the_machine = json_of(&app, &format!("key create --organization {org}")).await;
    let operator = app.operator("op@x.test").await;
    let in_a_name = json_of(&app, &format!("key create --organization {org} --as op@x.test")).await;
    let listed = app.list(ada.credentials()).await.body;
    let makers: Vec<&Value> = listed.as_array().unwrap().iter().map(|key| &key["created_by"]).collect();
    let first = listed[0]["id"].clone();
    let expected = [
        json!({"kind": "user", "id": bob.id, "name": "bob@a.test"}),
        json!({"kind": "key", "id": first, "name": "created"}),
        json!({"kind": "system", "id": null, "name": null}),
        json!({"kind": "operator", "id": operator.id, "name": null}),
    ];
    assert_eq!(makers, expected.iter().collect::<Vec<_>>());
    let told = [&by_key.body, &at_the_machine, &in_a_name].map(|created| &created["created_by"]);
    assert_eq!(told, [&expected[1], &expected[2], &expected[3]], "the 201 shows the creator too");
}

#[tokio::test]
async fn s17_removing_a_person_revokes_their_keys_transitively() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("owner").await;
    let (_, hers) = generate(&app, ada.credentials(), MINTING).await;
    let (first, by_bob) = generate(&app, bob.credentials(), MINTING).await;
    let (_, by_his_key) = generate(&app, Credentials::Key(&by_bob), MINTING).await;
    let (_, by_its_key) = generate(&app, Credentials::Key(&by_his_key), MINTING).await;
    // Its key is revoked, but the objects that the key created still belong to the person.
    assert_eq!(app.revoke(Credentials::Key(&by_its_key), &first).await.status, 200);
    let (_, by_hers) = generate(&app, Credentials::Key(&hers), MINTING).await;
    assert_eq!(remove(&app, &ada, &org, &bob, "").await.status, 204);
    for (key, is_left) in [(&hers, true), (&by_hers, true), (&by_bob, false), (&by_his_key, false), (&by_its_key, false)] {
        assert_eq!(works(&app, key).await, is_left, "{key}");
    }
    for method in [Method::POST, Method::PATCH] {
        let path = if method == Method::POST { KEYS } else { SETTINGS };
        let body = r#"{"visible_in_click_token_lookups":true}"#;
        let refused = app.send(method, Credentials::Key(&by_its_key), path, body).await;
        assert_eq!(refused.refusal(), (401, "unauthenticated"), "{path}");
    }
    let audited = app.audited(org.parse().unwrap()).await;
    assert_eq!(audited.iter().filter(|action| *action == "api_key.revoked").count(), 3, "{audited:?}");
}

#[tokio::test]
async fn removal_with_keep_keys_keeps_the_keys() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("owner").await;
    let (_, kept) = generate(&app, bob.credentials(), MINTING).await;
    for query in ["?keep_keys=yes", "?keep_keys=", "?keep_keys=true&keep_keys=true", "?keepkeys=true"] {
        assert_eq!(remove(&app, &ada, &org, &bob, query).await.refusal(), (400, "invalid_parameter"), "{query}");
    }
    assert_eq!(remove(&app, &ada, &org, &bob, "?keep_keys=true").await.status, 204);
    assert!(works(&app, &kept).await);

    let bob = app.joined(&ada, &org, "bob@a.test", "owner").await;
    let step_down = async |keep_keys: Value| {
        let path = format!("{}/{}", members_of(&org), bob.id);
        let body = json!({"role": "member", "keep_keys": keep_keys});
        let stepped = app.send(Method::PATCH, ada.credentials(), &path, body.to_string()).await;
        assert_eq!(stepped.status, 200, "{}", stepped.body);
        assert_eq!(app.set_role(&ada, &org, &bob, "owner").await.status, 200);
    };
    step_down(json!(true)).await;
    assert!(works(&app, &kept).await);
    step_down(json!(false)).await;
    assert!(!works(&app, &kept).await, "earlier keys too, because he has seen them");
    let (_, last) = generate(&app, bob.credentials(), MINTING).await;
    assert_eq!(remove(&app, &ada, &org, &bob, "?keep_keys=false").await.status, 204);
    assert!(!works(&app, &last).await);
}

/// A concurrent creation either fails or is revoked by the removal.
#[tokio::test(flavor = "multi_thread")]
async fn removing_a_person_wins_over_concurrent_key_creation() {
    const ROUNDS: usize = 20;
    let app = Identity::open().await;
    let (ada, _, org) = app.ada_and_bob("owner").await;
    for round in 0..ROUNDS {
        let eve = app.joined(&ada, &org, &format!("eve{round}@a.test"), "owner").await;
        let (_, key) = generate(&app, eve.credentials(), MINTING).await;
        let body = json!({"scopes": MINTING});
        let by_key = (0..4).map(|_| until_served(|| app.create(Credentials::Key(&key), &body)));
        let by_session = (0..4).map(|_| until_served(|| app.create(eve.credentials(), &body)));
        let (by_key, by_session, removed) = tokio::join!(
            futures::future::join_all(by_key),
            futures::future::join_all(by_session),
            remove(&app, &ada, &org, &eve, "")
        );
        assert_eq!(removed.status, 204, "round {round}");
        for created in by_key.iter().chain(&by_session) {
            assert!(matches!(created.status, 201 | 401 | 403), "round {round}: {}", created.body);
            let is_left = created.status == 201 && works(&app, created.text("key")).await;
            assert!(!is_left, "round {round}: {}", created.body);
        }
    }
    let left = "SELECT count(*) FROM api_keys WHERE revoked_at IS NULL";
    assert_eq!(app.count(left).await, 0);
}

#[tokio::test]
async fn a5_keys_grant_at_most_their_own_scopes() {
    let app = Identity::open().await;
    let (org, _) = app.partner("partner").await;
    let before = app.count("SELECT count(*) FROM api_keys").await;
    let mut created = 0;
    for held in [
        &[Scope::IdentityWrite][..],
        &[Scope::IdentityWrite, Scope::TelemetryRead],
        &[Scope::IdentityRead, Scope::IdentityWrite, Scope::TelemetryRead, Scope::TelemetryWrite],
        &Scope::ALL,
    ] {
        let key = app.seed().key(org, OrgType::Platform, held).await;
        for scope in Scope::ALL {
            for with in [vec![scope], vec![Scope::IdentityWrite, scope]] {
                let asked = app.create(Credentials::Key(&key), &json!({"scopes": with})).await;
                let is_granted = with.iter().all(|scope| held.contains(scope));
                let expected = if is_granted { (201, "") } else { (403, "missing_scope") };
                assert_eq!(asked.refusal(), expected, "{held:?} {with:?}");
                created += i64::from(is_granted);
            }
        }
        let by_default = app.create(Credentials::Key(&key), &json!({})).await;
        let has_defaults = Scope::DEFAULT.iter().all(|scope| held.contains(scope));
        assert_eq!(by_default.status, if has_defaults { 201 } else { 403 }, "{held:?} {}", by_default.body);
        created += 1 + i64::from(has_defaults);
    }
    assert_eq!(app.count("SELECT count(*) FROM api_keys").await, before + created, "rejected requests create no key");
}

#[tokio::test]
async fn only_trusted_partners_can_have_the_provision_scope() {
    let app = Identity::open().await;
    let (org, key) = app.platform("partner").await;
    let owner = app.session("owner@p.test", &[org]).await;
    let body = json!({"scopes": ["partner:provision", "identity:read"]});
    let at_the_machine = format!("key create --organization {org} --scope partner:provision");
    for shows in [Credentials::Key(&key), Credentials::Session(&owner)] {
        assert_eq!(app.create(shows, &body).await.refusal(), (403, "forbidden"));
    }
    assert!(refusal(&app, &at_the_machine, 3).await.contains("Only trusted partners"));
    json_of(&app, &format!("partner trust {org}")).await;
    let created = app.create(Credentials::Session(&owner), &body).await;
    assert_eq!(created.status, 201, "{}", created.body);
    json_of(&app, &at_the_machine).await;
    json_of(&app, &format!("partner untrust {org}")).await;
    for shows in [Credentials::Key(&key), Credentials::Session(&owner)] {
        assert_eq!(app.create(shows, &body).await.refusal(), (403, "forbidden"), "no longer trusted");
    }
}

#[tokio::test]
async fn removing_a_person_withdraws_their_keys_invites() {
    let app = Identity::open().await;
    let (org, _) = app.partner("partner").await;
    let (ada, bob) = (app.person("ada@p.test").await, app.person("bob@p.test").await);
    for person in [&ada, &bob] {
        identity_api::organizations::ensure_owner(&app.stores.pool, org, person.id).await.unwrap();
    }
    let (_, key) = generate(&app, bob.credentials(), &["partner:provision"]).await;
    let body = json!({"name": "Owner", "domain": "a.test", "admin_email": "bob@home.test"});
    let provisioned = app.post(Credentials::Key(&key), PROVISIONED, &body).await;
    let invited = app.person("bob@home.test").await;
    let token = app.token_of(&provisioned.body["invite"]).await;
    assert_eq!(remove(&app, &ada, &org.to_string(), &bob, "").await.status, 204);
    assert_eq!(app.claim(&invited, &token).await.refusal(), (404, "not_found"));
    let provisioned: schemas::ids::OrgId = provisioned.body["organization"]["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(app.audited(provisioned).await.last().map(String::as_str), Some("invite.withdrawn"));
}

#[tokio::test]
async fn removing_an_operator_revokes_their_keys() {
    let app = Identity::open().await;
    let ((org, _), (other, _)) = (app.org("one").await, app.platform("two").await);
    for (option, is_left) in [(" --keep-keys", true), ("", false)] {
        json_of(&app, "operator add op@x.test").await;
        let mut keys = Vec::new();
        for org in [org, other] {
            let created = json_of(&app, &format!("key create --organization {org} --scope identity:write --as op@x.test")).await;
            let key = created["key"].as_str().unwrap().to_owned();
            keys.push(generate(&app, Credentials::Key(&key), &["identity:write"]).await.1);
            keys.push(key);
        }
        json_of(&app, &format!("operator remove op@x.test{option}")).await;
        for key in &keys {
            assert_eq!(works(&app, key).await, is_left, "{option}");
        }
    }
    let at_the_machine = json_of(&app, &format!("key create --organization {org}")).await;
    assert!(works(&app, at_the_machine["key"].as_str().unwrap()).await);
    // First with a key only, then with a session where no session was requested.
    assert_eq!(send_request(app.request(Method::GET, KEYS, Credentials::Nothing)).await.status, 401);
}
