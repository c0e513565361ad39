//! Manifests: register, refresh, delete; their key versions; rejected hosts and documents.

use crate::admin::json_of;
use crate::domains::{app_on, own, register};
use crate::fake_internet::FakeInternet;
use crate::test_app::{DOMAINS, Identity, MANIFESTS, Requests as _, TestApp, UNKNOWN_ID, manual_clock};
use chrono::TimeDelta;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use serde_json::{Value, json};
use service_kit::identity_tables::IdentityTables;
use service_kit::testing::{Credentials, TestReceiver, TestResponse, TestStores};

const PATH: &str = "/.well-known/content-telemetry.json";
/// Two public keys: from RFC 9421, appendix B.1.4, and from the did:key example in docs/api/signatures.md.
const KEY: &str = "z6Mkh4LmfP1ev9MNPGr7JbEbtD6BD4fsu1duEj83PMCs3xHG";
const OTHER: &str = "z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK";

fn manifest(keys: &[(&str, &str)]) -> String {
    let keys: Vec<Value> = keys.iter().map(|(id, key)| json!({"id": id, "type": "Ed25519", "publicKey": key})).collect();
    json!({"keys": keys}).to_string()
}

fn url(internet: &FakeInternet, host: &str) -> String {
    format!("https://{host}:{}{PATH}", internet.server.address.port())
}

async fn create(app: &TestApp, key: &str, url: &str) -> TestResponse {
    app.post(Credentials::Key(key), MANIFESTS, &json!({"url": url})).await
}

async fn refresh(app: &TestApp, key: &str, id: &str) -> TestResponse {
    app.post(Credentials::Key(key), &format!("{MANIFESTS}/{id}/refresh"), &json!({})).await
}

/// Returns the state and the ids of the keys.
fn state_of(manifest: &Value) -> (&str, Vec<&str>) {
    let keys = manifest["keys"].as_array().unwrap().iter().map(|key| key["id"].as_str().unwrap());
    (manifest["state"].as_str().unwrap(), keys.collect())
}

/// An owner of `a.test`, with a manifest that contains one key.
async fn owner(internet: &FakeInternet) -> (TestApp, OrgId, String) {
    let app = app_on(internet).await;
    let (org, key) = app.org("owner").await;
    own(&app, internet, &key, "a.test").await;
    internet.publish_page(&format!("a.test{PATH}"), 200, &manifest(&[("k1", KEY)]));
    (app, org, key)
}

async fn keys_at(app: &TestApp, org: OrgId, minutes_ago: i64) -> Vec<String> {
    let at = app.clock.now() - TimeDelta::minutes(minutes_ago);
    let keys = IdentityTables::new(app.stores.pool.clone()).manifest_keys(org, at).await.unwrap();
    keys.into_iter().map(|key| key.key_id).collect()
}

#[tokio::test]
async fn registers_lists_and_deletes_a_manifest() {
    let internet = FakeInternet::new().await;
    let (app, org, key) = owner(&internet).await;
    let created = create(&app, &key, &url(&internet, "a.test")).await;
    let id = created.text("id").to_owned();
    let now = app.now_text();
    let expected = json!({
        "id": id, "organization_id": org, "url": url(&internet, "a.test"), "state": "valid", "reason": null,
        "keys": [{"id": "k1", "thumbprint": "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U", "public_key": KEY, "expires": null,
                  "first_seen": now, "last_seen": now}],
        "checked_at": now, "valid_at": now, "created_at": now,
    });
    assert_eq!((created.status, &created.body), (201, &expected));
    let path = format!("{MANIFESTS}/{id}");
    assert_eq!(app.get(Credentials::Key(&key), &path).await.body, expected);
    assert_eq!(app.get(Credentials::Key(&key), MANIFESTS).await.body, json!([expected]));
    let replayed = create(&app, &key, &url(&internet, "a.test")).await;
    assert_eq!(replayed.refusal(), (409, "conflict"), "the same registration twice");
    let (_, stranger) = app.org("stranger").await;
    let hidden = app.delete(Credentials::Key(&stranger), &path).await;
    assert_eq!(hidden, app.delete(Credentials::Key(&stranger), &format!("{MANIFESTS}/{UNKNOWN_ID}")).await);
    assert_eq!(hidden.status, 404);
    for _ in 0..2 {
        assert_eq!(app.delete(Credentials::Key(&key), &path).await.status, 204);
    }
    assert_eq!(app.get(Credentials::Key(&key), MANIFESTS).await.body, json!([]));
    assert!(keys_at(&app, org, 0).await.is_empty());
    let changes = app.audited(org).await;
    assert_eq!(changes[2..], ["manifest.created", "manifest.keys_changed", "manifest.deleted"]);
}

#[tokio::test]
async fn keeps_every_key_version_and_the_last_valid_keys() {
    let internet = FakeInternet::new().await;
    let (app, org, key) = owner(&internet).await;
    let id = create(&app, &key, &url(&internet, "a.test")).await.text("id").to_owned();
    let duplicate = manifest(&[("k1", KEY), ("k1", OTHER)]);
    let steps = [
        (200, manifest(&[("k1", KEY), ("k2", OTHER)]), "valid", vec!["k1", "k2"]),
        (302, String::new(), "unreachable", vec!["k1", "k2"]),
        (200, duplicate, "invalid", vec!["k1", "k2"]),
        (200, "{\"secret".to_owned(), "invalid", vec!["k1", "k2"]),
        (200, manifest(&[("k1", OTHER)]), "valid", vec!["k1"]),
        (200, manifest(&[]), "valid", vec![]),
        (200, manifest(&[("k1", KEY)]), "valid", vec!["k1"]),
    ];
    for (status, page, state, keys) in steps {
        internet.publish_page(&format!("a.test{PATH}"), status, &page);
        app.clock.advance(TimeDelta::hours(1));
        assert_eq!(app.state.refresh_manifests().await.unwrap(), 1, "one check an hour");
        assert_eq!(app.state.refresh_manifests().await.unwrap(), 0, "no second check");
        let shown = app.get(Credentials::Key(&key), &format!("{MANIFESTS}/{id}")).await.body;
        assert_eq!(state_of(&shown), (state, keys), "{shown}");
        assert_eq!(shown["reason"].is_null(), state == "valid", "{shown}");
        assert!(!shown.to_string().contains("secret"), "{shown}");
    }
    let history: [(i64, &[&str]); 7] =
        [(450, &[]), (390, &["k1"]), (330, &["k1", "k2"]), (210, &["k1", "k2"]), (90, &["k1"]), (30, &[]), (0, &["k1"])];
    for (minutes_ago, keys) in history {
        assert_eq!(keys_at(&app, org, minutes_ago).await, keys, "{minutes_ago} minutes ago");
    }
    assert_eq!(app.count("SELECT count(*) FROM manifest_keys").await, 4, "k1, k2, another k1, the first k1 again");
}

#[tokio::test]
async fn rejects_manifests_that_redirect_fail_or_are_too_large() {
    let internet = FakeInternet::new().await;
    let (app, _, key) = owner(&internet).await;
    let large = format!("{}{}", manifest(&[("k1", KEY)]), " ".repeat(8 << 20));
    for (status, page, reason) in [
        (302, String::new(), "no response with status 200 within ten seconds"),
        (500, manifest(&[("k1", KEY)]), "no response with status 200 within ten seconds"),
        (200, large, "the document is larger than 64 KiB"),
    ] {
        internet.publish_page(&format!("a.test{PATH}"), status, &page);
        let created = create(&app, &key, &url(&internet, "a.test")).await;
        assert_eq!((created.status, state_of(&created.body)), (201, ("unreachable", vec![])), "{}", created.body);
        assert_eq!(created.text("reason"), reason);
        let path = format!("{MANIFESTS}/{}", created.text("id"));
        assert_eq!(app.delete(Credentials::Key(&key), &path).await.status, 204);
    }
}

#[tokio::test]
async fn s5_manifest_checks_do_not_reach_private_addresses() {
    let (internet, canary) = (FakeInternet::new().await, TestReceiver::canary().await);
    let (mut outside, domains) = internet.settings();
    // Allow any public host on the canary's port, so that only its private address is rejected.
    let port = canary.address.port();
    outside.webhook_allow = format!("*:{port}").parse().unwrap();
    let app = Identity::open_on(TestStores::unprepared().await, manual_clock(), outside, domains).await;
    let (_, key) = app.owner_of("a.test").await;
    let url = format!("https://a.test:{port}{PATH}");
    internet.point("a.test", "127.0.0.1");
    let created = create(&app, &key, &url).await;
    assert_eq!((created.status, state_of(&created.body).0), (201, "unreachable"), "{}", created.body);
    for address in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1"] {
        internet.point("a.test", address);
        let refreshed = refresh(&app, &key, created.text("id")).await;
        assert_eq!((refreshed.status, state_of(&refreshed.body).0), (200, "unreachable"), "{address}");
    }
    assert_eq!(canary.connects(), 0);
}

#[tokio::test]
async fn manifests_require_a_verified_or_attested_host() {
    let internet = FakeInternet::new().await;
    let (app, org, key) = owner(&internet).await;
    let (agent, agents_key) = app.org_of("agent", OrgType::Agent).await;
    let foreign = create(&app, &agents_key, &url(&internet, "a.test")).await;
    assert_eq!((foreign.refusal(), &foreign.body["errors"][0]["field"]), ((422, "invalid_request"), &json!("url")));
    register(&app, &key, "b.test").await;
    assert_eq!(create(&app, &key, &url(&internet, "b.test")).await.status, 422, "registered, but not verified");

    internet.publish_page(&format!("b.test{PATH}"), 200, &manifest(&[("agent", OTHER)]));
    json_of(&app, &format!("manifest-host attest --organization {agent} b.test")).await;
    let attested = create(&app, &agents_key, &url(&internet, "b.test")).await;
    assert_eq!(state_of(&attested.body), ("valid", vec!["agent"]), "{}", attested.body);
    json_of(&app, &format!("manifest-host withdraw --organization {agent} b.test")).await;
    let withdrawn = refresh(&app, &agents_key, attested.text("id")).await;
    assert_eq!(state_of(&withdrawn.body), ("unverified", vec![]), "{}", withdrawn.body);

    let created = create(&app, &key, &url(&internet, "blog.a.test")).await;
    let domains = app.get(Credentials::Key(&key), DOMAINS).await;
    let a_test = domains.body.as_array().unwrap().iter().find(|domain| domain["domain"] == "a.test").unwrap();
    assert_eq!(app.delete(Credentials::Key(&key), &format!("{DOMAINS}/{}", a_test["id"].as_str().unwrap())).await.status, 204);
    app.clock.advance(TimeDelta::hours(1));
    app.state.refresh_manifests().await.unwrap();
    let after = app.get(Credentials::Key(&key), &format!("{MANIFESTS}/{}", created.text("id"))).await;
    assert_eq!(after.body["state"], "unverified", "the domain was released");
    assert!(keys_at(&app, org, 0).await.is_empty());
}

#[tokio::test]
async fn limits_manifests_and_versions_and_requires_owners() {
    let internet = FakeInternet::new().await;
    let (app, org, key) = owner(&internet).await;
    let created = create(&app, &key, &url(&internet, "a.test")).await;
    internet.publish_page("a.test/other.json", 200, &manifest(&[("k1", OTHER)]));
    let other = create(&app, &key, &url(&internet, "a.test").replace(PATH, "/other.json")).await;
    assert_eq!(state_of(&other.body), ("invalid", vec![]), "another manifest has a key with this id: {}", other.body);
    for number in 3..=10 {
        let next = create(&app, &key, &url(&internet, "a.test").replace(PATH, &format!("/{number}.json"))).await;
        assert_eq!(next.status, 201);
    }
    let eleventh = create(&app, &key, &url(&internet, "a.test").replace(PATH, "/11.json")).await;
    assert_eq!(eleventh.refusal(), (409, "conflict"));

    sqlx::query(
        "INSERT INTO manifest_keys SELECT uuidv7(), $1, $2, 'x', 'x', sha256('x'), NULL, $3, $3, $3 FROM generate_series(1, 999)",
    )
    .bind(uuid::Uuid::parse_str(created.text("id")).unwrap())
    .bind(org.0)
    .bind(app.clock.now())
    .execute(&app.stores.pool)
    .await
    .unwrap();
    internet.publish_page(&format!("a.test{PATH}"), 200, &manifest(&[("k1", KEY), ("k2", OTHER)]));
    let flooded = refresh(&app, &key, created.text("id")).await;
    assert_eq!(state_of(&flooded.body), ("invalid", vec!["k1"]), "{}", flooded.body);

    let member = app.session("member@a.test", &[org]).await;
    sqlx::query("UPDATE memberships SET role = 'member'").execute(&app.stores.pool).await.unwrap();
    let path = format!("{MANIFESTS}/{}", created.text("id"));
    let session = Credentials::Session(&member);
    let refused = [
        app.post(session, MANIFESTS, &json!({"url": url(&internet, "a.test")})).await,
        app.post(session, &format!("{path}/refresh"), &json!({})).await,
        app.delete(session, &path).await,
    ];
    assert!(refused.iter().all(|refused| refused.status == 403), "{refused:?}");
    assert_eq!(app.get(session, &path).await.status, 200);
}
