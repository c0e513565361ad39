//! User sessions: lifetime, end, and invalid credentials (threat rows X18 to X20, X25).

use crate::mailbox::Mailbox as _;
use crate::test_app::{Identity, KEYS, Requests as _, SESSION, TestApp, VERIFY};
use chrono::TimeDelta;
use reqwest::{Method, RequestBuilder};
use schemas::identity::OrgType;
use schemas::secrets::{PlainApiKey, PlainUserSession};
use serde_json::json;
use service_kit::testing::{Credentials, TestResponse, client, send_request};

async fn whoami(app: &TestApp, session: &str) -> TestResponse {
    app.get(Credentials::Session(session), SESSION).await
}

#[tokio::test]
async fn returns_the_person_and_memberships() {
    let app = Identity::open_with_manual_clock().await;
    let ((b, _), (a, _), (_, _)) = (app.platform("Beta").await, app.org("Alpha").await, app.org("Other").await);
    let session = app.session("jane@example.com", &[a, b]).await;
    let me = whoami(&app, &session).await;
    assert_eq!(me.status, 200);
    assert_eq!(me.body["user"]["email"], "jane@example.com");
    assert_eq!(
        me.body["memberships"],
        json!([
            {"organization_id": a, "name": "Alpha", "org_type": "content_owner", "role": "owner"},
            {"organization_id": b, "name": "Beta", "org_type": "platform", "role": "owner"},
        ])
    );
    let names: Vec<_> = me.body.as_object().unwrap().keys().collect();
    assert_eq!(names, ["expires_at", "idle_until", "is_operator", "memberships", "user"]);
    assert!(!me.body.to_string().contains(&session), "a session is shown once");
}

#[tokio::test]
async fn sessions_expire_when_idle_or_after_30_days() {
    let app = Identity::open_with_manual_clock().await;
    let (idle, used) = (app.session("idle@example.com", &[]).await, app.session("used@example.com", &[]).await);
    let moment = TimeDelta::seconds(1);
    app.clock.advance(TimeDelta::days(7) - moment);
    assert_eq!(whoami(&app, &used).await.status, 200);
    app.clock.advance(moment);
    assert_eq!(whoami(&app, &idle).await.refusal(), (401, "unauthenticated"), "unused for seven days");
    for _ in 0..3 {
        assert_eq!(whoami(&app, &used).await.status, 200);
        app.clock.advance(TimeDelta::days(6));
    }
    assert_eq!(whoami(&app, &used).await.status, 200, "after 25 days");
    app.clock.advance(TimeDelta::days(5) - moment);
    assert_eq!(whoami(&app, &used).await.status, 200, "just before 30 days");
    app.clock.advance(moment);
    assert_eq!(whoami(&app, &used).await.refusal(), (401, "unauthenticated"), "even if used");
    assert_eq!(whoami(&app, &used).await.refusal(), (401, "unauthenticated"), "requests don't revive it");
}

#[tokio::test]
async fn writes_session_use_at_most_every_five_minutes() {
    let app = Identity::open_with_manual_clock().await;
    let session = app.session("jane@example.com", &[]).await;
    let versions = async || -> String {
        sqlx::query_scalar("SELECT xmin::text || ' ' || ctid::text FROM user_sessions").fetch_one(&app.stores.pool).await.unwrap()
    };
    whoami(&app, &session).await;
    let once = versions().await;
    for _ in 0..20 {
        whoami(&app, &session).await;
        app.clock.advance(TimeDelta::seconds(14));
    }
    assert_eq!(versions().await, once, "not within five minutes");
    app.clock.advance(TimeDelta::seconds(21));
    whoami(&app, &session).await;
    assert_ne!(versions().await, once);
}

#[tokio::test]
async fn signing_out_works_at_once_in_every_process() {
    let app = Identity::open().await;
    let other = app.second_server().await;
    let (org, _) = app.org("owner").await;
    for round in 0..20 {
        let session = app.session("jane@example.com", &[org]).await;
        let elsewhere =
            async || client().get(format!("{}{KEYS}", other.url)).bearer_auth(&session).send().await.unwrap().status();
        assert_eq!(elsewhere().await, 200, "round {round}");
        let ended = app.request(Method::DELETE, SESSION, Credentials::Session(&session)).send().await.unwrap();
        assert_eq!(ended.status(), 204);
        let cookie = ended.headers()["set-cookie"].to_str().unwrap();
        assert_eq!(cookie, "telemetry-session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax");
        assert_eq!(elsewhere().await, 401, "round {round}");
        assert_eq!(whoami(&app, &session).await.status, 401);
        assert_eq!(app.delete(Credentials::Session(&session), SESSION).await.status, 401);
    }
}

#[tokio::test]
async fn x25_signing_in_replaces_the_presented_session() {
    let app = Identity::open().await;
    let (before, bystander) = (app.session("a@example.com", &[]).await, app.session("a@example.com", &[]).await);
    app.ask_to_sign_in("b@example.com").await;
    let token = app.token_mailed("b@example.com", 1).await;
    let opened = app.post(Credentials::Session(&before), VERIFY, &json!({"token": token})).await;
    assert_eq!(opened.status, 200, "{}", opened.body);
    assert_eq!(whoami(&app, &before).await.status, 401, "the presented session has ended");
    assert_eq!(whoami(&app, &bystander).await.status, 200, "other sessions stay");
    assert_eq!(whoami(&app, opened.text("session_id")).await.body["user"]["email"], "b@example.com");

    let planted = PlainUserSession::generate();
    let refused = app
        .request(Method::GET, SESSION, Credentials::Nothing)
        .header("cookie", format!("telemetry-session={}", planted.reveal()));
    let refused = refused.send().await.unwrap();
    assert_eq!(refused.status(), 401, "an id chosen by the caller is rejected");
    assert!(!refused.headers().contains_key("set-cookie"));
    app.ask_to_sign_in("b@example.com").await;
    let token = app.token_mailed("b@example.com", 2).await;
    let with_planted = app
        .request(Method::POST, VERIFY, Credentials::Nothing)
        .header("cookie", format!("telemetry-session={}", planted.reveal()));
    let with_planted =
        with_planted.header("origin", "http://telemetry.test").json(&json!({"token": token})).send().await.unwrap();
    let cookies: Vec<_> =
        with_planted.headers().get_all("set-cookie").iter().map(|value| value.to_str().unwrap().to_owned()).collect();
    assert_eq!(with_planted.status(), 200);
    assert!(
        cookies.iter().any(|cookie| cookie.starts_with("telemetry-session=") && cookie.ends_with("; HttpOnly; SameSite=Lax")),
        "{cookies:?}"
    );
    assert!(cookies.iter().all(|cookie| !cookie.contains(planted.reveal())), "{cookies:?}");
    assert_eq!(whoami(&app, planted.reveal()).await.status, 401);
}

/// Returns a credential with one byte changed, and other invalid strings.
fn corrupted(good: &str) -> Vec<Vec<u8>> {
    let mut flipped = good.as_bytes().to_vec();
    let last = flipped.last_mut().unwrap();
    *last = if *last == b'x' { b'y' } else { b'x' };
    vec![
        flipped,
        good.to_lowercase().into_bytes(),
        good.to_uppercase().into_bytes(),
        format!("x{good}").into_bytes(),
        good.as_bytes()[1..].to_vec(),
        format!("{good},{good}").into_bytes(),
        format!("{good}, {good}").into_bytes(),
        "x".repeat(8_192).into_bytes(),
        [good.as_bytes(), b"\xff"].concat(),
        [good.as_bytes(), "é".as_bytes()].concat(),
        b"null".to_vec(),
        Vec::new(),
    ]
}

#[tokio::test]
async fn x18_invalid_credentials_get_the_same_401() {
    let app = Identity::open().await;
    let (org, key) = app.org("owner").await;
    let session = app.session("jane@example.com", &[org]).await;
    let revoked = app.create(Credentials::Key(&key), &json!({"scopes": ["identity:write"]})).await;
    assert_eq!(app.revoke(Credentials::Key(&key), revoked.text("id")).await.status, 200);
    let (expired, ended) = (app.session("late@a.test", &[org]).await, app.session("gone@a.test", &[org]).await);
    for (email, column) in [("late@a.test", "expires_at"), ("gone@a.test", "ended_at")] {
        let past = format!("UPDATE user_sessions SET {column} = now() FROM users u WHERE u.id = user_id AND u.email = $1");
        sqlx::query(sqlx::AssertSqlSafe(past)).bind(email).execute(&app.stores.pool).await.unwrap();
    }
    let expected = app.list(Credentials::Nothing).await;
    assert_eq!(expected.refusal(), (401, "unauthenticated"));
    for path in [KEYS, SESSION] {
        for shows in [Credentials::Key(revoked.text("key")), Credentials::Session(&expired), Credentials::Session(&ended)] {
            assert_eq!(app.get(shows, path).await, expected, "{path}");
        }
        let ask = || app.request(Method::GET, path, Credentials::Nothing);
        let refuses =
            async |request: RequestBuilder, why: &str| assert_eq!(send_request(request).await, expected, "{path}: {why}");
        for value in corrupted(&session) {
            let bearer = [b"Bearer ", value.as_slice()].concat();
            refuses(ask().header("authorization", bearer), &String::from_utf8_lossy(&value)).await;
            let cookie = [b"telemetry-session=", value.as_slice()].concat();
            refuses(ask().header("cookie", cookie), &String::from_utf8_lossy(&value)).await;
        }
        for value in corrupted(&key) {
            refuses(ask().header("x-api-key", value.clone()), &String::from_utf8_lossy(&value)).await;
        }
        for scheme in ["", "Basic ", "Bearer", "Bearer  ", "Token ", "bearer:", "Bearer\t"] {
            refuses(ask().header("authorization", format!("{scheme}{session}")), scheme).await;
        }
        let (bearer, other) = (format!("Bearer {session}"), format!("telemetry-session={session}"));
        refuses(ask().header("authorization", &bearer).header("authorization", &bearer), "two headers").await;
        refuses(ask().header("cookie", &other).header("cookie", &other), "two cookies").await;
        refuses(ask().header("cookie", format!("{other}; {other}")), "two cookies in one").await;
        refuses(ask().header("cookie", format!("__Host-{other}")), "the cookie name for HTTPS").await;
        refuses(ask().header("cookie", format!("Session={session}")), "another cookie").await;
        let theirs = app.session("theirs@example.com", &[org]).await;
        refuses(
            ask().header("authorization", &bearer).header("cookie", format!("telemetry-session={theirs}")),
            "two different sessions",
        )
        .await;
        refuses(ask().header("authorization", "Basic x").header("cookie", &other), "a good cookie and a bad header").await;
        refuses(ask().header("x-api-key", &key).header("x-api-key", &key), "two key headers").await;
        refuses(
            ask().header("x-api-key", PlainApiKey::generate(OrgType::Agent).reveal()).header("cookie", &other),
            "an invalid key",
        )
        .await;
        assert_eq!(
            send_request(ask().header("authorization", &bearer).header("cookie", &other)).await.status,
            200,
            "the same session twice"
        );
        assert_eq!(
            send_request(ask().header("authorization", format!("bEARER {session}"))).await.status,
            200,
            "schemes have no case"
        );
        assert_eq!(send_request(ask().header("cookie", format!("a=b; {other};c=d"))).await.status, 200);
        let neighbours = format!("telemetry-session=x; {other}");
        assert_eq!(send_request(ask().header("cookie", neighbours)).await.status, 200, "other cookies aren't sessions");
    }
}

#[tokio::test]
async fn x20_keys_and_sessions_are_not_interchangeable() {
    let app = Identity::open().await;
    let (org, key) = app.org("owner").await;
    let session = app.session("jane@example.com", &[org]).await;
    let expected = app.list(Credentials::Nothing).await;
    for path in [KEYS, SESSION] {
        assert_eq!(app.get(Credentials::Key(&session), path).await, expected);
        assert_eq!(app.get(Credentials::Session(&key), path).await, expected);
        let as_cookie = app.request(Method::GET, path, Credentials::Nothing).header("cookie", format!("telemetry-session={key}"));
        assert_eq!(send_request(as_cookie).await, expected);
    }
    assert_eq!(app.get(Credentials::Key(&key), SESSION).await, expected, "a key is not a session");
    assert_eq!(app.get(Credentials::Both(&key, &session), SESSION).await, expected, "also beside a session");
    assert_eq!(app.get(Credentials::Both(&key, &session), KEYS).await.status, 200, "the key takes precedence");
}
