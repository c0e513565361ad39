//! Permissions to grant access, and how removing a person affects their delegations and endpoints (A4, A5, S17).

use crate::admin::json_of;
use crate::people::People as _;
use crate::people::{Person, members_of};
use crate::test_app::{
    Credentials, DELEGATIONS, DOMAINS, Identity, REQUESTS, Requests as _, TestApp, TestResponse, WEBHOOKS, until_served,
};
use reqwest::Method;
use schemas::identity::{OrgType, Scope};
use schemas::ids::OrgId;
use serde_json::{Value, json};

async fn grant(app: &TestApp, by: Credentials<'_>, to: OrgId) -> TestResponse {
    app.post(by, DELEGATIONS, &json!({"grantee_org_id": to})).await
}

async fn set_up(app: &TestApp, by: Credentials<'_>) -> TestResponse {
    app.post(by, WEBHOOKS, &json!({"url": "https://hooks.a.test/in", "event_types": ["delegation.revoked"]})).await
}

async fn rotate(app: &TestApp, by: Credentials<'_>, endpoint: &TestResponse) -> TestResponse {
    app.send(Method::POST, by, &format!("{WEBHOOKS}/{}/rotate-secret", endpoint.text("id")), "").await
}

async fn generate(app: &TestApp, by: Credentials<'_>) -> String {
    let created = app.create(by, &json!({"scopes": ["identity:read", "identity:write", "telemetry:read"]})).await;
    assert_eq!(created.status, 201, "{}", created.body);
    created.text("key").to_owned()
}

/// Returns the ids of active objects that a person sees.
async fn in_force(app: &TestApp, by: &Person, path: &str) -> Vec<Value> {
    let listed = app.get(by.credentials(), path).await.body;
    listed.as_array().unwrap().iter().map(|object| object["id"].clone()).collect()
}

#[tokio::test]
async fn keys_delegate_at_most_their_own_scopes() {
    let app = Identity::open().await;
    let ((owner, _), (partner, partner_key)) = (app.owner_of("a.test").await, app.platform("partner").await);
    let filed = app.request_delegation(&partner_key, "a.test").await;
    let approval = format!("{REQUESTS}/{}/approve", filed.text("id"));
    for held in [&[Scope::IdentityWrite][..], &[Scope::IdentityRead, Scope::IdentityWrite, Scope::TelemetryWrite]] {
        let key = app.seed().key(owner, OrgType::ContentOwner, held).await;
        for body in [json!({"grantee_org_id": partner}), json!({"grantee_org_id": partner, "scopes": ["telemetry:read"]})] {
            assert_eq!(app.post(Credentials::Key(&key), DELEGATIONS, &body).await.refusal(), (403, "missing_scope"), "{held:?}");
        }
        assert_eq!(app.post(Credentials::Key(&key), &approval, &json!({})).await.refusal(), (403, "missing_scope"), "{held:?}");
    }
    assert_eq!(app.count("SELECT count(*) FROM delegations").await, 0);
    assert_eq!(
        app.get(Credentials::Key(&partner_key), REQUESTS).await.body[0]["status"],
        json!("pending"),
        "the request is still pending"
    );
    let enough = app.seed().key(owner, OrgType::ContentOwner, &[Scope::IdentityWrite, Scope::TelemetryRead]).await;
    assert_eq!(app.post(Credentials::Key(&enough), &approval, &json!({})).await.status, 201);
}

#[tokio::test]
async fn members_cannot_grant_access() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    app.seed().verify(org.parse().unwrap(), "a.test").await;
    let ((one, _), (_, two)) = (app.platform("one").await, app.platform("two").await);
    let filed = app.request_delegation(&two, "a.test").await;
    let approval = format!("{REQUESTS}/{}/approve", filed.text("id"));
    for refused in [
        grant(&app, bob.credentials(), one).await,
        app.post(bob.credentials(), &approval, &json!({})).await,
        set_up(&app, bob.credentials()).await,
    ] {
        assert_eq!(refused.refusal(), (403, "forbidden"), "{}", refused.body);
    }
    for path in [DELEGATIONS, WEBHOOKS] {
        assert_eq!(in_force(&app, &ada, path).await, Vec::<Value>::new());
    }
    assert_eq!(in_force(&app, &bob, REQUESTS).await.len(), 1, "members can list them");
    assert_eq!(app.set_role(&ada, &org, &bob, "owner").await.status, 200);
    let made = [grant(&app, bob.credentials(), one).await, set_up(&app, bob.credentials()).await];
    assert_eq!(made.map(|answer| answer.status), [201, 201], "owners can");
    assert_eq!(app.post(bob.credentials(), &approval, &json!({})).await.status, 201);
}

#[tokio::test]
async fn a18_rejects_release_enable_test_and_revoke_by_members() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    app.seed().verify(org.parse().unwrap(), "a.test").await;
    let domains = app.get(ada.credentials(), DOMAINS).await.body;
    let domain = domains.as_array().unwrap().iter().find(|domain| domain["verified"] == true).unwrap();
    let domain = format!("{DOMAINS}/{}", domain["id"].as_str().unwrap());
    let delegation = grant(&app, ada.credentials(), app.platform("partner").await.0).await;
    let delegation = format!("{DELEGATIONS}/{}", delegation.text("id"));
    let endpoint = format!("{WEBHOOKS}/{}", set_up(&app, ada.credentials()).await.text("id"));
    let test = format!("{endpoint}/test");
    let alert = async |by: &Person| {
        let thresholds = json!({"min_events": 10, "share": 0.1}).to_string();
        app.send(Method::PUT, by.credentials(), "/api/v1/identity/reconciliation-alert", thresholds).await
    };
    let switch = async |by: &Person, disabled: bool| {
        app.send(Method::PATCH, by.credentials(), &endpoint, json!({"disabled": disabled}).to_string()).await
    };
    let refused = [
        app.delete(bob.credentials(), &domain).await,
        app.delete(bob.credentials(), &delegation).await,
        app.post(bob.credentials(), &test, &json!({})).await,
        switch(&bob, false).await,
        alert(&bob).await,
    ];
    for refused in refused {
        assert_eq!(refused.refusal(), (403, "forbidden"), "{}", refused.body);
    }
    assert_eq!(switch(&bob, true).await.status, 200, "members can disable it");
    assert_eq!(switch(&bob, false).await.refusal(), (403, "forbidden"), "but not enable it");
    assert_eq!(app.count("SELECT count(*) FROM domains WHERE released_at IS NOT NULL").await, 0);
    assert_eq!(app.count("SELECT count(*) FROM delegations WHERE revoked_at IS NULL").await, 1);
    assert_eq!(app.count("SELECT count(*) FROM webhook_deliveries").await, 0, "no message was sent");

    let done = [
        switch(&ada, false).await,
        app.post(ada.credentials(), &test, &json!({})).await,
        app.delete(ada.credentials(), &delegation).await,
        alert(&ada).await,
    ];
    assert_eq!(done.map(|answer| answer.status), [200, 202, 200, 200], "owners can");
    assert_eq!(app.delete(ada.credentials(), &domain).await.status, 204);
    let (_, key) = app.owner_of("b.test").await;
    let listed = app.get(Credentials::Key(&key), DOMAINS).await.body;
    let own = format!("{DOMAINS}/{}", listed[0]["id"].as_str().unwrap());
    assert_eq!(app.delete(Credentials::Key(&key), &own).await.status, 204, "keys with identity:write can");
}

#[tokio::test]
async fn removal_revokes_delegations_and_endpoints() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("owner").await;
    app.seed().verify(org.parse().unwrap(), "a.test").await;
    let mut platforms = Vec::new();
    for name in ["one", "two", "three", "four", "five"] {
        platforms.push(app.platform(name).await);
    }
    let by_bob = generate(&app, bob.credentials()).await;
    let by_his_key = generate(&app, Credentials::Key(&by_bob)).await;
    let hers = grant(&app, ada.credentials(), platforms[0].0).await;
    let her_endpoint = set_up(&app, ada.credentials()).await;
    for (by, platform) in [(bob.credentials(), 1), (Credentials::Key(&by_bob), 2), (Credentials::Key(&by_his_key), 3)] {
        assert_eq!(grant(&app, by, platforms[platform].0).await.status, 201);
        assert_eq!(set_up(&app, by).await.status, 201);
    }
    let filed = app.request_delegation(&platforms[4].1, "a.test").await;
    assert_eq!(app.post(bob.credentials(), &format!("{REQUESTS}/{}/approve", filed.text("id")), &json!({})).await.status, 201);
    let told = app.subscribe(&platforms[3].1, &["delegation.revoked"]).await;

    assert_eq!(app.remove(&ada, &org, &bob).await.status, 204);
    assert_eq!(in_force(&app, &ada, DELEGATIONS).await, [hers.body["id"].clone()]);
    assert_eq!(in_force(&app, &ada, WEBHOOKS).await, [her_endpoint.body["id"].clone()]);
    assert_eq!(app.outbox(&her_endpoint).await.len(), 4, "the organization gets a message for each");
    assert_eq!(app.outbox(&told).await.len(), 1, "and so does the other side");
    let audited = app.audited(org.parse().unwrap()).await;
    let count = |action: &str| audited.iter().filter(|known| *known == action).count();
    assert_eq!((count("delegation.revoked"), count("webhook.deleted")), (4, 3), "{audited:?}");
}

#[tokio::test]
async fn members_cannot_see_signing_secrets() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("member").await;
    let endpoint = set_up(&app, ada.credentials()).await;
    let sealed = async || -> Vec<u8> {
        sqlx::query_scalar("SELECT secret_sealed FROM webhook_endpoints").fetch_one(&app.stores.pool).await.unwrap()
    };
    let before = sealed().await;
    let refused = rotate(&app, bob.credentials(), &endpoint).await;
    assert_eq!((refused.refusal(), refused.body["secret"].is_null()), ((403, "forbidden"), true), "{}", refused.body);
    assert_eq!(sealed().await, before, "the secret is unchanged");
    assert!(!app.audited(org.parse().unwrap()).await.iter().any(|action| action == "webhook.secret_rotated"));
    assert_eq!(app.set_role(&ada, &org, &bob, "owner").await.status, 200);
    assert_eq!(rotate(&app, bob.credentials(), &endpoint).await.status, 200, "owners can");
}

/// Only the person who last replaced the secret knows it.
#[tokio::test]
async fn removing_a_person_deletes_endpoints_they_rotated_last() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("owner").await;
    let by_his_key = generate(&app, Credentials::Key(&generate(&app, bob.credentials()).await)).await;
    let mut endpoints = Vec::new();
    for _ in 0..3 {
        endpoints.push(set_up(&app, ada.credentials()).await);
    }
    let bobs = set_up(&app, bob.credentials()).await;
    for (by, endpoint) in [
        (bob.credentials(), &endpoints[0]),
        (Credentials::Key(&by_his_key), &endpoints[1]),
        (bob.credentials(), &endpoints[2]),
        (ada.credentials(), &endpoints[2]),
        (ada.credentials(), &bobs),
    ] {
        assert_eq!(rotate(&app, by, endpoint).await.status, 200);
    }
    assert_eq!(app.remove(&ada, &org, &bob).await.status, 204);
    let left = [endpoints[2].body["id"].clone(), bobs.body["id"].clone()];
    assert_eq!(in_force(&app, &ada, WEBHOOKS).await, left, "endpoints whose secret she rotated last");
    for gone in &endpoints[..2] {
        assert_eq!(rotate(&app, ada.credentials(), gone).await.refusal(), (409, "conflict"), "a deleted endpoint has no secret");
    }
}

/// Rotates a secret and removes the caller at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn removal_wins_over_concurrent_secret_rotation() {
    const ROUNDS: usize = 10;
    let app = Identity::open().await;
    let (ada, org) = app.create_owner("ada@a.test", "a.test").await;
    for round in 0..ROUNDS {
        let eve = app.joined(&ada, &org, &format!("eve{round}@a.test"), "owner").await;
        let key = generate(&app, eve.credentials()).await;
        let (one, other) = (set_up(&app, ada.credentials()).await, set_up(&app, ada.credentials()).await);
        let (by_session, by_key, removed) = tokio::join!(
            rotate(&app, eve.credentials(), &one),
            rotate(&app, Credentials::Key(&key), &other),
            app.remove(&ada, &org, &eve)
        );
        assert_eq!(removed.status, 204, "round {round}: {}", removed.body);
        let left = in_force(&app, &ada, WEBHOOKS).await;
        for (rotated, endpoint) in [(by_session, &one), (by_key, &other)] {
            assert!(matches!(rotated.status, 200 | 401 | 403), "round {round}: {}", rotated.body);
            assert_eq!(left.contains(&endpoint.body["id"]), rotated.status != 200, "round {round}: {}", rotated.body);
            let path = format!("{WEBHOOKS}/{}", endpoint.text("id"));
            assert_eq!(app.delete(ada.credentials(), &path).await.status, 204);
        }
    }
}

#[tokio::test]
async fn removal_with_keep_keys_keeps_delegations_and_endpoints() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("owner").await;
    let (platform, _) = app.platform("one").await;
    assert_eq!(grant(&app, bob.credentials(), platform).await.status, 201);
    assert_eq!(set_up(&app, bob.credentials()).await.status, 201);
    let left = async || (in_force(&app, &ada, DELEGATIONS).await.len(), in_force(&app, &ada, WEBHOOKS).await.len());
    for (keep_keys, expected) in [(true, (1, 1)), (false, (0, 0))] {
        let body = json!({"role": "member", "keep_keys": keep_keys}).to_string();
        let stepped = app.send(Method::PATCH, ada.credentials(), &format!("{}/{}", members_of(&org), bob.id), body).await;
        assert_eq!(stepped.status, 200, "{}", stepped.body);
        assert_eq!(left().await, expected, "keep_keys: {keep_keys}");
        assert_eq!(app.set_role(&ada, &org, &bob, "owner").await.status, 200);
    }
    assert_eq!(grant(&app, bob.credentials(), platform).await.status, 201);
    assert_eq!(set_up(&app, bob.credentials()).await.status, 201);
    let path = format!("{}/{}?keep_keys=true", members_of(&org), bob.id);
    assert_eq!(app.delete(ada.credentials(), &path).await.status, 204);
    assert_eq!(left().await, (1, 1));
}

/// The same person's objects in another organization stay.
#[tokio::test]
async fn removal_does_not_affect_other_organizations() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("owner").await;
    let (platform, _) = app.platform("one").await;
    let elsewhere = app.create_organization(&bob, "b.test").await.text("id").to_owned();
    let of = |path: &str| format!("{path}?organization_id={elsewhere}");
    let body = json!({"grantee_org_id": platform});
    assert_eq!(app.post(bob.credentials(), &of(DELEGATIONS), &body).await.status, 201);
    let body = json!({"url": "https://hooks.b.test/in", "event_types": ["delegation.revoked"]});
    assert_eq!(app.post(bob.credentials(), &of(WEBHOOKS), &body).await.status, 201);
    assert_eq!(app.remove(&ada, &org, &bob).await.status, 204);
    for path in [DELEGATIONS, WEBHOOKS] {
        assert_eq!(in_force(&app, &bob, &of(path)).await.len(), 1, "{path}");
    }
}

/// A concurrent grant either fails or is revoked by the removal.
#[tokio::test(flavor = "multi_thread")]
async fn removal_wins_over_concurrent_grants() {
    const ROUNDS: usize = 10;
    let app = Identity::open().await;
    let (ada, org) = app.create_owner("ada@a.test", "a.test").await;
    let mut platforms = Vec::new();
    for name in ["one", "two", "three", "four"] {
        platforms.push(app.platform(name).await.0);
    }
    for round in 0..ROUNDS {
        let eve = app.joined(&ada, &org, &format!("eve{round}@a.test"), "owner").await;
        let key = generate(&app, eve.credentials()).await;
        let credentials = [eve.credentials(), Credentials::Key(&key), eve.credentials(), Credentials::Key(&key)];
        let here = &app;
        let granting =
            credentials.into_iter().zip(&platforms).map(|(by, platform)| until_served(move || grant(here, by, *platform)));
        let setting_up = credentials.into_iter().map(|by| until_served(move || set_up(here, by)));
        let (granted, endpoints, removed) = tokio::join!(
            futures::future::join_all(granting),
            futures::future::join_all(setting_up),
            app.remove(&ada, &org, &eve)
        );
        assert_eq!(removed.status, 204, "round {round}: {}", removed.body);
        for made in granted.iter().chain(&endpoints) {
            assert!(matches!(made.status, 201 | 401 | 403), "round {round}: {}", made.body);
        }
        for path in [DELEGATIONS, WEBHOOKS] {
            assert_eq!(in_force(&app, &ada, path).await, Vec::<Value>::new(), "round {round}: {path}");
        }
    }
}

#[tokio::test]
async fn removing_an_operator_revokes_what_their_keys_created() {
    let app = Identity::open().await;
    let ((org, owner), (platform, _)) = (app.org("one").await, app.platform("two").await);
    json_of(&app, "operator add op@x.test").await;
    let scopes = "--scope identity:write --scope telemetry:read";
    let created = json_of(&app, &format!("key create --organization {org} {scopes} --as op@x.test")).await;
    let key = created["key"].as_str().unwrap();
    assert_eq!(grant(&app, Credentials::Key(key), platform).await.status, 201);
    assert_eq!(set_up(&app, Credentials::Key(key)).await.status, 201);
    json_of(&app, "operator remove op@x.test").await;
    for path in [DELEGATIONS, WEBHOOKS] {
        assert_eq!(app.get(Credentials::Key(&owner), path).await.body, json!([]), "{path}");
    }
}

/// Also covers keys that a member created as an operator for the organization that removes the member.
#[tokio::test]
async fn removal_revokes_keys_created_as_operator() {
    let app = Identity::open().await;
    let (ada, bob, org) = app.ada_and_bob("owner").await;
    let (other, _) = app.org("other").await;
    json_of(&app, "operator add bob@a.test").await;
    let key_of = async |org: &str| {
        let created = json_of(&app, &format!("key create --organization {org} --as bob@a.test")).await;
        created["key"].as_str().unwrap().to_owned()
    };
    let (here, elsewhere) = (key_of(&org).await, key_of(&other.to_string()).await);
    assert_eq!(app.remove(&ada, &org, &bob).await.status, 204);
    let statuses = [app.list(Credentials::Key(&here)).await.status, app.list(Credentials::Key(&elsewhere)).await.status];
    assert_eq!(statuses, [401, 200]);
}
