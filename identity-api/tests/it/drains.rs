//! Drains: create, show, rotate, delete, and their keys.

use crate::races::{PARALLEL, at_once};
use crate::test_app::{Credentials, DRAINS, Identified, Identity, KEYS, Requests as _, TestApp, UNKNOWN_ID};
use chrono::{DurationRound, TimeDelta};
use schemas::identity::{MAX_DRAINS, OrgType, Scope};
use schemas::ids::DrainId;
use schemas::secrets::PlainApiKey;
use serde_json::{Value, json};
use service_kit::identity_tables::IdentityTables;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) trait DrainRequests: Identified {
    async fn drain(&self, shows: Credentials<'_>) -> Value {
        let created = self.app().post(shows, DRAINS, &json!({"name": "CDN", "provider": "cloudflare"})).await;
        assert_eq!(created.status, 201, "{}", created.body);
        created.body
    }

    /// Returns a key's drain, as ingest-gateway looks it up; `None` if the key is invalid.
    async fn fed_by(&self, key: &str) -> Option<DrainId> {
        let hash = PlainApiKey::parse(key).unwrap().hash();
        let caller = IdentityTables::new(self.app().stores.pool.clone()).find_key(&hash).await.unwrap()?;
        assert!(caller.scopes.is_empty(), "a drain's key has no scope");
        caller.require_drain_or_write().unwrap()
    }

    /// Moves the expiry of replaced keys back by an hour.
    async fn let_keys_expire(&self) {
        sqlx::query("UPDATE api_keys SET expires_at = expires_at - interval '1 hour' WHERE expires_at IS NOT NULL")
            .execute(&self.app().stores.pool)
            .await
            .unwrap();
    }
}

impl DrainRequests for TestApp {}

fn id_of(drain: &Value) -> DrainId {
    drain["id"].as_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn creates_lists_uses_and_deletes_a_drain() {
    let app = Identity::open_with_manual_clock().await;
    let (org, owner) = app.owner_of("a.test").await;
    app.owner_of("b.test").await;
    let foreign = json!({"name": "n", "provider": "ndjson", "hosts": ["b.test"]});
    assert_eq!(
        app.post(Credentials::Key(&owner), DRAINS, &foreign).await.refusal(),
        (422, "invalid_request"),
        "another organization's host"
    );
    let wanted = json!({"name": "Edge", "provider": "fastly", "hosts": ["www.a.test", "b.a.test"], "role": "edge", "sampling": 0.5,
        "fastly_service_id": "SU1Z0isxPaozGVKXdv0eY"});
    let created = app.post(Credentials::Key(&owner), DRAINS, &wanted).await;
    assert_eq!(created.status, 201, "{}", created.body);
    let (id, key) = (id_of(&created.body), created.text("key").to_owned());
    let mut shown = created.body.clone();
    shown.as_object_mut().unwrap().remove("key");
    let maker = shown["created_by"].take();
    assert_eq!(maker["kind"], "key");
    let expected = json!({"id": id, "organization_id": org, "name": "Edge", "provider": "fastly", "path": "/drains/fastly",
        "hosts": ["a.test", "b.a.test"], "role": "edge", "sampling": 0.5, "has_secret": false,
        "fastly_service_id": "SU1Z0isxPaozGVKXdv0eY", "created_by": null, "created_at": app.now_text()});
    assert_eq!(shown, expected);
    shown["created_by"] = maker;
    let path = format!("{DRAINS}/{id}");
    assert_eq!(app.get(Credentials::Key(&owner), &path).await.body, shown);
    assert_eq!(app.get(Credentials::Key(&owner), DRAINS).await.body, json!([shown]));
    assert_eq!(app.fed_by(&key).await, Some(id));

    let keys = app.get(Credentials::Key(&owner), KEYS).await.body;
    let listed = keys.as_array().unwrap().iter().find(|key| key["drain_id"] == json!(id)).unwrap();
    assert_eq!((&listed["name"], &listed["scopes"], &listed["expires_at"]), (&json!("Edge"), &json!([]), &Value::Null));

    assert_eq!(app.delete(Credentials::Key(&owner), &path).await.status, 204);
    assert_eq!(app.fed_by(&key).await, None, "takes effect before the response");
    assert_eq!(app.delete(Credentials::Key(&owner), &path).await.status, 204, "repeating it returns the same");
    assert_eq!(app.get(Credentials::Key(&owner), &path).await.refusal(), (404, "not_found"));
    assert_eq!(app.get(Credentials::Key(&owner), DRAINS).await.body, json!([]));
    assert_eq!(app.post(Credentials::Key(&owner), &format!("{path}/rotate"), &json!({})).await.status, 404);
    let trail = app.audited(org).await;
    assert_eq!(trail, ["drain.created", "api_key.created", "drain.deleted", "api_key.revoked"]);
}

#[tokio::test]
async fn replaced_drain_key_stays_valid_for_an_hour() {
    let app = Identity::open_with_manual_clock().await;
    let (org, owner) = app.owner_of("a.test").await;
    let drain = app.drain(Credentials::Key(&owner)).await;
    let (id, path) = (id_of(&drain), format!("{DRAINS}/{}/rotate", drain["id"].as_str().unwrap()));
    let rotate = async || {
        let rotated = app.post(Credentials::Key(&owner), &path, &json!({})).await;
        assert_eq!(rotated.status, 200, "{}", rotated.body);
        rotated.text("key").to_owned()
    };
    let first = drain["key"].as_str().unwrap().to_owned();
    let second = rotate().await;
    assert_eq!((app.fed_by(&first).await, app.fed_by(&second).await), (Some(id), Some(id)), "both are valid for an hour");
    let keys = app.get(Credentials::Key(&owner), KEYS).await.body;
    let until: Vec<_> =
        keys.as_array().unwrap().iter().filter(|key| !key["drain_id"].is_null()).map(|key| &key["expires_at"]).collect();
    let in_an_hour = json!(schemas::instant::text(app.clock.now() + TimeDelta::hours(1)));
    assert_eq!(until, [&in_an_hour, &Value::Null]);

    let third = rotate().await;
    assert_eq!(app.fed_by(&first).await, None, "the key before the last expires immediately");
    assert_eq!((app.fed_by(&second).await, app.fed_by(&third).await), (Some(id), Some(id)));
    app.let_keys_expire().await;
    assert_eq!((app.fed_by(&second).await, app.fed_by(&third).await), (None, Some(id)));
    let trail = app.audited(org).await;
    let rotations = trail.iter().filter(|action| *action == "drain.key_rotated").count();
    assert_eq!((rotations, trail.iter().filter(|action| *action == "api_key.revoked").count()), (2, 1));

    let current =
        app.get(Credentials::Key(&owner), KEYS).await.body.as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(app.revoke(Credentials::Key(&owner), &current).await.status, 200, "it can be revoked like any key");
    assert_eq!(app.fed_by(&third).await, None);
    assert_eq!(app.fed_by(&rotate().await).await, Some(id), "the drain gets another key");
}

#[tokio::test]
async fn secrets_are_stored_encrypted() {
    let app = Identity::open().await;
    let (_, owner) = app.org("owner").await;
    let wanted = json!({"name": "Vercel", "provider": "vercel", "secret": "planted-secret"});
    let created = app.post(Credentials::Key(&owner), DRAINS, &wanted).await;
    assert_eq!((created.status, &created.body["has_secret"]), (201, &json!(true)), "{}", created.body);
    let id = id_of(&created.body);
    let sealed: Vec<u8> = sqlx::query_scalar("SELECT secret_sealed FROM drains WHERE id = $1")
        .bind(id.0)
        .fetch_one(&app.stores.pool)
        .await
        .unwrap();
    assert_eq!(app.sealer.open(&sealed, id.0.as_bytes()).unwrap(), "planted-secret");
    assert!(app.sealer.open(&sealed, UNKNOWN_ID.as_bytes()).is_err(), "sealed for its row only");
}

#[tokio::test]
async fn creating_a_drain_requires_owner_and_telemetry_write() {
    let app = Identity::open().await;
    let (org, owner) = app.org("owner").await;
    let drain = app.drain(Credentials::Key(&owner)).await;
    let path = format!("{DRAINS}/{}", drain["id"].as_str().unwrap());
    let boss = app.session("boss@a.test", &[org]).await;
    let member = app.session("member@a.test", &[org]).await;
    sqlx::query("UPDATE memberships SET role = 'member' FROM users u WHERE u.id = user_id AND u.email = 'member@a.test'")
        .execute(&app.stores.pool)
        .await
        .unwrap();
    let shows = Credentials::Session(&member);
    assert_eq!(app.get(shows, &path).await.status, 200, "members can read it");
    let wanted = json!({"name": "n", "provider": "ndjson"});
    for refused in [
        app.post(shows, DRAINS, &wanted).await,
        app.post(shows, &format!("{path}/rotate"), &json!({})).await,
        app.delete(shows, &path).await,
    ] {
        assert_eq!(refused.refusal(), (403, "forbidden"), "{}", refused.body);
    }
    let silent = app.seed().key(org, OrgType::ContentOwner, &[Scope::IdentityWrite]).await;
    let refused = app.post(Credentials::Key(&silent), DRAINS, &wanted).await;
    assert_eq!(refused.refusal(), (403, "missing_scope"), "a key grants at most its own scopes: {}", refused.body);
    let hers = app.drain(Credentials::Session(&boss)).await;
    assert_eq!(hers["created_by"]["name"], "boss@a.test");
}

#[tokio::test]
async fn removing_a_person_revokes_their_drain_keys() {
    let app = Identity::open().await;
    let (org, _) = app.org("owner").await;
    let (boss, ada) = (app.session("boss@a.test", &[org]).await, app.session("ada@a.test", &[org]).await);
    let drain = app.drain(Credentials::Session(&ada)).await;
    let key = drain["key"].as_str().unwrap();
    assert_eq!(app.fed_by(key).await, Some(id_of(&drain)));
    let ada_id: uuid::Uuid =
        sqlx::query_scalar("SELECT id FROM users WHERE email = 'ada@a.test'").fetch_one(&app.stores.pool).await.unwrap();
    let removed =
        app.delete(Credentials::Session(&boss), &format!("/api/v1/identity/organizations/{org}/members/{ada_id}")).await;
    assert_eq!(removed.status, 204, "{}", removed.body);
    assert_eq!(app.fed_by(key).await, None);
    let rotated = app.post(Credentials::Session(&boss), &format!("{DRAINS}/{}/rotate", id_of(&drain)), &json!({})).await;
    assert_eq!(rotated.status, 200, "the drain remains and gets another key");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_do_not_exceed_the_drain_limit() {
    let app = Arc::new(Identity::open().await);
    let (org, owner) = app.org("owner").await;
    let many = "INSERT INTO drains (organization_id, name, provider) SELECT $1, 'many', 'combined' FROM generate_series(1, $2)";
    sqlx::query(many).bind(org.0).bind(MAX_DRAINS - 7).execute(&app.stores.pool).await.unwrap();
    let answers = at_once(&app, |app, number| {
        let owner = owner.clone();
        let wanted = json!({"name": format!("drain {number}"), "provider": "combined", "role": "origin"});
        async move { app.post(Credentials::Key(&owner), DRAINS, &wanted).await }
    })
    .await;
    assert_eq!(answers, BTreeMap::from([(201, 7), (409, PARALLEL - 7)]));
    let drains = app.get(Credentials::Key(&owner), DRAINS).await.body;
    let first = drains[0]["id"].as_str().unwrap();
    assert_eq!(app.delete(Credentials::Key(&owner), &format!("{DRAINS}/{first}")).await.status, 204);
    app.drain(Credentials::Key(&owner)).await;
}

/// Inserts an hour as the gateway does; `numbers` are lines, kept, people, bytes and lag.
async fn add_hour(app: &TestApp, drain: DrainId, hours_ago: i64, numbers: [i64; 5], dropped: &Value) {
    let now = app.clock.now().duration_trunc(TimeDelta::hours(1)).unwrap();
    let [lines, kept, people, bytes, lag_ms] = numbers;
    sqlx::query(
        "INSERT INTO drain_hours (source, organization_id, provider, drain_id, hour, lines, kept, people, bad, dropped, bytes, \
         lag_ms, received_at) SELECT id, organization_id, provider, id, $2, $3, $4, $5, 0, $6, $7, $8, $9 FROM drains WHERE id = $1",
    )
    .bind(drain.0)
    .bind(now - TimeDelta::hours(hours_ago))
    .bind(lines)
    .bind(kept)
    .bind(people)
    .bind(dropped)
    .bind(bytes)
    .bind(lag_ms)
    .bind(app.clock.now() - TimeDelta::hours(hours_ago))
    .execute(&app.stores.pool)
    .await
    .unwrap();
}

#[tokio::test]
async fn drain_health_distinguishes_unknown_hours_from_zero() {
    let app = Identity::open_with_manual_clock().await;
    let (_, owner) = app.org("owner").await;
    let drain = app.drain(Credentials::Key(&owner)).await;
    let (id, other) = (id_of(&drain), id_of(&app.drain(Credentials::Key(&owner)).await));
    let path = format!("{DRAINS}/{id}/health");
    let empty = app.get(Credentials::Key(&owner), &path).await;
    assert_eq!(empty.status, 200, "{}", empty.body);
    assert_eq!(
        (&empty.body["last_batch_at"], &empty.body["lines"], &empty.body["lag_ms"]),
        (&Value::Null, &json!(0), &Value::Null)
    );
    let hours = empty.body["hours"].as_array().unwrap();
    assert_eq!((hours.len(), hours.iter().filter(|hour| hour["coverage"] == false).count()), (48, 48));
    assert_eq!(hours[0].as_object().unwrap().len(), 2, "an hour without a line has no figures: {}", hours[0]);

    add_hour(&app, id, 0, [15, 2, 4, 200, 10], &json!({"asset": 4, "method": 1})).await;
    add_hour(&app, id, 47, [7, 1, 2, 100, 7], &json!({})).await;
    add_hour(&app, id, 48, [1_000, 1, 2, 100, 1_000], &json!({"asset": 900})).await;
    add_hour(&app, other, 0, [1_000, 1, 2, 100, 1_000], &json!({})).await;
    for n in 0..12 {
        sqlx::query("INSERT INTO drain_bad_lines (source, digest, n, reason, excerpt, seen_at) VALUES ($1, '\\x00', $2, 'not_json', '{aaa ' || $2::int, now() + make_interval(secs => $2))")
            .bind(id.0)
            .bind(n)
            .execute(&app.stores.pool)
            .await
            .unwrap();
    }
    let health = app.get(Credentials::Key(&owner), &path).await.body;
    assert_eq!(health["last_batch_at"], app.now_text());
    let told = |of: &Value| ["lines", "kept", "people", "bad", "bytes", "lag_ms"].map(|name| of[name].as_u64().unwrap());
    assert_eq!(told(&health), [22, 3, 6, 0, 300, 10], "only the last 48 hours");
    assert_eq!(health["dropped"], json!([{"reason": "asset", "count": 4}, {"reason": "method", "count": 1}]));
    assert_eq!(health["refused"], 8, "lines of no other category");
    let excerpts: Vec<&Value> = health["bad_lines"].as_array().unwrap().iter().map(|line| &line["excerpt"]).collect();
    let newest_first: Vec<_> = (2..12).rev().map(|n| json!(format!("{{aaa {n}"))).collect();
    assert_eq!(excerpts, newest_first.iter().collect::<Vec<_>>());
    let hours = health["hours"].as_array().unwrap();
    let covered: Vec<usize> = (0..48).filter(|at| hours[*at]["coverage"] == true).collect();
    assert_eq!((&hours[0]["refused"], &hours[47]["refused"]), (&json!(4), &json!(4)));
    assert_eq!((covered, told(&hours[0]), told(&hours[47])), (vec![0, 47], [7, 1, 2, 0, 100, 7], [15, 2, 4, 0, 200, 10]));
}
