//! Secrets appear neither in logs nor, as shown, in tables (S11, X22).

use crate::forged_provider::{ForgedProvider, SECRET};
use crate::invites::mailed_token;
use crate::mailbox::Mailbox as _;
use crate::mailbox::token_in;
use crate::people::{ORGANIZATIONS, invites_of, members_of};
use crate::test_app::{DRAINS, Identity, KEYS, Requests as _, VERIFY, WEBHOOKS};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::secret_encryption::SecretsKey;
use service_kit::testing::{Credentials, TestProcess, TestStores, client, eventually, free_address};
use url::Url;

#[tokio::test]
async fn s11_trace_logs_do_not_contain_secrets() {
    let (stores, forged) = (TestStores::unprepared().await, ForgedProvider::start().await);
    let (mails, key) = (tempfile::tempdir().unwrap(), SecretsKey::generate());
    let listen = free_address().to_string();
    let providers = json!([{"id": "forged", "issuer": forged.issuer(), "client_id": "telemetry", "client_secret": SECRET}]);
    let settings = [
        ("DATABASE_URL", stores.postgres.database_url.clone()),
        ("TELEMETRY_LISTEN", listen.clone()),
        ("TELEMETRY_METRICS_LISTEN", free_address().to_string()),
        ("TELEMETRY_LOG", "trace".to_owned()),
        ("TELEMETRY_SECRETS_KEY", key.reveal().to_owned()),
        ("TELEMETRY_MAIL_DIR", mails.path().display().to_string()),
        ("TELEMETRY_OIDC_PROVIDERS", providers.to_string()),
        ("TELEMETRY_OIDC_ALLOW", forged.host().to_owned()),
    ];
    let mut process = TestProcess::service(&[], &settings);
    let auth = format!("http://{listen}/api/v1/identity/auth");
    process.wait_until_ok(&format!("http://{listen}/ready")).await;
    let asked = client().post(format!("{auth}/magic-link")).json(&json!({"email": "jane@example.com"})).send().await.unwrap();
    assert_eq!(asked.status(), 202);
    let mail = eventually("the email is written", || async {
        let path = std::fs::read_dir(mails.path()).unwrap().map(|entry| entry.unwrap().path()).next()?;
        std::fs::read_to_string(path).ok().filter(|mail| mail.contains("minutes"))
    });
    let token = token_in(&mail.await);
    let verify = async || client().post(format!("{auth}/magic-link/verify")).json(&json!({"token": token})).send().await.unwrap();
    let opened: Value = verify().await.json().await.unwrap();
    let by_mail = opened["session_id"].as_str().unwrap().to_owned();
    assert_eq!(verify().await.status(), 401, "errors are logged too");
    let session = format!("{auth}/session");
    assert_eq!(
        client().get(&session).header("cookie", format!("telemetry-session={by_mail}")).send().await.unwrap().status(),
        200
    );
    assert_eq!(client().get(&session).header("x-api-key", &by_mail).send().await.unwrap().status(), 401);

    let browser = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build().unwrap();
    let started = browser.get(format!("{auth}/oidc/forged")).send().await.unwrap();
    let journey = started.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let to: Url = started.headers()["location"].to_str().unwrap().parse().unwrap();
    let said = |name: &str| to.query_pairs().find(|(known, _)| known == name).unwrap().1.into_owned();
    forged.will_say(&forged.good("jane", "jane@example.com", &said("nonce"), Clock::System.now()), Clock::System.now());
    let code = "a-code-that-nobody-should-see-in-a-log";
    let back = format!("{auth}/oidc/forged/callback?code={code}&state={}", said("state"));
    let opened: Value = client().get(&back).header("cookie", &journey).send().await.unwrap().json().await.unwrap();
    let by_provider = opened["session_id"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
    assert_eq!(client().delete(&session).bearer_auth(&by_provider).send().await.unwrap().status(), 204);
    assert_eq!(client().get(&back).send().await.unwrap().status(), 401);

    assert_eq!(process.terminate().await, Some(0));
    let log = process.stdout() + &process.stderr();
    assert!(
        log.contains("\"DEBUG\"") && log.contains("/api/v1/identity/auth/magic-link/verify"),
        "requests are logged at this level"
    );
    let sealed = journey.split_once('=').unwrap().1.to_owned();
    for secret in [by_mail, by_provider, token, SECRET.to_owned(), key.reveal().to_owned(), sealed, code.to_owned()] {
        assert!(!log.contains(&secret), "{secret} in the log: {:?}", log.lines().find(|line| line.contains(&secret)));
    }
}

#[tokio::test]
async fn stores_only_hashes_of_secrets() {
    let app = Identity::open().await;
    let (_, owner) = app.org("owner").await;
    let by_key = Credentials::Key(&owner);
    app.ask_to_sign_in("ada@a.test").await;
    let link = app.token_mailed("ada@a.test", 1).await;
    let opened = app.post(Credentials::Nothing, VERIFY, &json!({"token": link})).await;
    let by_person = Credentials::Session(opened.text("session_id"));
    let body = json!({"name": "A", "org_type": "content_owner", "domain": "a.test"});
    let org = app.post(by_person, ORGANIZATIONS, &body).await;
    let invited = app.post(by_person, &members_of(org.text("id")), &json!({"email": "bob@a.test"})).await;
    let invite = mailed_token(&app);
    let key = app.create(by_key, &json!({})).await;
    let endpoint = app.subscribe(&owner, &["delegation.created"]).await;
    let drain = app.post(by_key, DRAINS, &json!({"name": "Vercel", "provider": "vercel", "secret": "planted-secret"})).await;
    assert_eq!((invited.status, drain.status), (201, 201), "{} {}", invited.body, drain.body);
    let shown = [&key.text("key")[12..], &drain.text("key")[12..], &endpoint.text("secret")[6..]];
    let secrets = [link.as_str(), opened.text("session_id"), &invite, "planted-secret"].into_iter().chain(shown);
    let secrets: Vec<&str> = secrets.collect();

    let mut texts = vec![invited.body.to_string()];
    let tables = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = 'public'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&app.stores.pool).await.unwrap();
    assert!(tables.len() > 20, "{tables:?}");
    for table in tables {
        let rows = sqlx::AssertSqlSafe(format!("SELECT t::text FROM {table} t"));
        texts.extend(sqlx::query_scalar::<_, String>(rows).fetch_all(&app.stores.pool).await.unwrap());
    }
    for path in [KEYS, DRAINS, WEBHOOKS, "/api/v1/identity/audit"] {
        texts.push(app.get(by_key, path).await.body.to_string());
    }
    texts.push(app.get(by_person, &invites_of(org.text("id"))).await.body.to_string());
    for text in texts {
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
    }
}
