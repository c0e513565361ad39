//! Sign-in at a real OpenID Connect provider: the npm package `oidc-provider`, used as by a browser. Fails without Node or the
//! registry.

use crate::test_app::{Identity, Requests as _, SESSION, TestApp, sign_in};
use identity_api::sign_in::SignInSettings;
use reqwest::cookie::{CookieStore, Jar};
use reqwest::{Client, Method, Response, Url};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::settings::SecretSetting;
use service_kit::testing::{Credentials, npm_package};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

const VERSION: &str = "9.13.3";
const START: &str = "/api/v1/identity/auth/oidc/real";
const SECRET: &str = "a-secret-that-only-these-two-know";

/// A running provider. Killed when dropped.
struct RealProvider {
    issuer: String,
    /// Keeps the pipe open, so the provider can still write its output.
    _said: Lines<BufReader<ChildStdout>>,
    _process: Child,
}

impl RealProvider {
    async fn start() -> Self {
        Self::start_as(json!({})).await
    }

    /// Starts it with another configuration; `provider.mjs` explains the members.
    async fn start_as(variant: Value) -> Self {
        let package = tokio::task::spawn_blocking(|| npm_package("oidc-provider", VERSION, env!("CARGO_TARGET_TMPDIR").as_ref()));
        let accounts = json!({
            "jane": {"email": "Jane@Example.com", "email_verified": true},
            "joe": {"email": "joe@example.com", "email_verified": false},
            "silent": {},
            "text": {"email": "text@example.com", "email_verified": "true"},
            "text-no": {"email": "text-no@example.com", "email_verified": "false"},
            "unsaid": {"email": "unsaid@example.com"},
            "second-jane": {"email": "jane@example.com", "email_verified": true},
        });
        let mut node = Command::new("node");
        node.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node/provider.mjs"));
        node.env("PACKAGE_DIR", package.await.unwrap()).env("CLIENT_SECRET", SECRET).env("ACCOUNTS", accounts.to_string());
        node.env("VARIANT", variant.to_string());
        node.env("REDIRECT_URI", format!("http://telemetry.test{START}/callback"));
        node.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = node.spawn().expect("this test needs Node.js 20 or later");
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let issuer = loop {
            let line = said.next_line().await.unwrap().expect("the provider names its issuer");
            if line.starts_with("http://127.0.0.1:") {
                break line;
            }
        };
        Self { issuer, _said: said, _process: process }
    }

    async fn app(&self) -> TestApp {
        self.app_with(false).await
    }

    async fn app_with(&self, trust_email: bool) -> TestApp {
        let providers = json!([{
            "id": "real", "issuer": self.issuer, "client_id": "telemetry", "client_secret": SECRET, "trust_email": trust_email
        }]);
        let oidc_allow = self.issuer.trim_start_matches("http://").parse().unwrap();
        let settings =
            SignInSettings { oidc_providers: Some(SecretSetting::from(providers.to_string())), oidc_allow, ..sign_in() };
        Identity::open_for(Clock::System, settings).await
    }
}

/// Doesn't follow redirects and stores cookies, so a test sees every step.
struct Browser<'a> {
    app: &'a TestApp,
    client: Client,
    cookies: Arc<Jar>,
}

impl<'a> Browser<'a> {
    fn new(app: &'a TestApp) -> Self {
        let cookies = Arc::new(Jar::default());
        let builder = Client::builder().redirect(reqwest::redirect::Policy::none()).cookie_provider(Arc::clone(&cookies));
        Self { app, client: builder.no_proxy().timeout(Duration::from_secs(30)).build().unwrap(), cookies }
    }

    /// Sends requests for the public URL to the listen address.
    async fn get(&self, url: &str) -> Response {
        self.client.get(url.replace("http://telemetry.test", &self.app.url(""))).send().await.unwrap()
    }

    /// Returns a redirect's target.
    fn next(response: &Response) -> Option<String> {
        let location = response.headers().get("location")?.to_str().unwrap();
        Some(response.url().join(location).unwrap().into())
    }

    async fn submit(&self, page: Url, form: String) -> Response {
        let form = self.client.post(page).body(form);
        form.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap()
    }

    /// Signs in and returns the URL of the callback.
    async fn walk(&self, login: &str) -> String {
        let mut response = self.get(&format!("{}{START}", &self.app.url(""))).await;
        for _ in 0..20 {
            if let Some(next) = Self::next(&response) {
                if next.starts_with("http://telemetry.test") {
                    return next;
                }
                response = self.get(&next).await;
                continue;
            }
            assert_eq!(response.status(), 200, "{}", response.url());
            // The provider's login page, then its consent page.
            let url = response.url().clone();
            let asks_who = response.text().await.unwrap().contains("name=\"login\"");
            let form = if asks_who { format!("prompt=login&login={login}&password=x") } else { "prompt=consent".to_owned() };
            response = self.submit(url, form).await;
        }
        panic!("the provider redirects too often");
    }
}

async fn json_of(response: Response) -> (u16, Value) {
    (response.status().as_u16(), response.json().await.unwrap())
}

#[tokio::test]
async fn provider_and_email_sign_in_open_the_same_account() {
    let provider = RealProvider::start().await;
    let app = provider.app().await;
    let by_mail = app.session("jane@example.com", &[]).await;
    let browser = Browser::new(&app);
    let back = browser.walk("jane").await;
    let arrived = browser.get(&back).await;
    let cookies: Vec<String> =
        arrived.headers().get_all("set-cookie").iter().map(|value| value.to_str().unwrap().to_owned()).collect();
    let (status, opened) = json_of(arrived).await;
    assert_eq!(status, 200, "{opened}");
    assert_eq!(opened["user"]["email"], "jane@example.com");
    assert!(
        cookies.iter().any(|cookie| cookie.starts_with("telemetry-session=") && cookie.contains("; HttpOnly; SameSite=Lax")),
        "{cookies:?}"
    );
    assert!(cookies.iter().any(|cookie| cookie.starts_with("telemetry-sign-in=; Path=/; Max-Age=0")), "{cookies:?}");
    let session = opened["session_id"].as_str().unwrap();
    let me = app.get(Credentials::Session(session), SESSION).await.body;
    assert_eq!(me["user"], app.get(Credentials::Session(&by_mail), SESSION).await.body["user"], "one account, two ways in");
    assert_eq!(browser.get(&format!("{}{SESSION}", app.url(""))).await.status(), 200, "the browser is signed in");

    let again = Browser::new(&app);
    let (status, opened_again) = json_of(again.get(&again.walk("jane").await).await).await;
    assert_eq!((status, &opened_again["user"]), (200, &opened["user"]));
    assert_eq!(app.count("SELECT count(*) FROM user_identities").await, 1);
    assert_eq!(app.count("SELECT count(*) FROM users").await, 1);
}

#[tokio::test]
async fn callbacks_work_only_once_and_in_one_browser() {
    let provider = RealProvider::start().await;
    let app = provider.app().await;
    let browser = Browser::new(&app);
    let started = browser.get(&format!("{}{START}", app.url(""))).await;
    let journey = started.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let to = Url::parse(started.headers()["location"].to_str().unwrap()).unwrap();
    let parameters: Vec<String> = to.query_pairs().map(|(name, _)| name.into_owned()).collect();
    for name in ["state", "nonce", "code_challenge", "code_challenge_method"] {
        assert!(parameters.iter().any(|parameter| parameter == name), "{to}");
    }
    assert!(to.query_pairs().any(|pair| pair == ("code_challenge_method".into(), "S256".into())), "{to}");
    assert!(
        !journey.contains(&*to.query_pairs().find(|(name, _)| name == "nonce").unwrap().1),
        "the browser can't read the state"
    );

    let back = browser.walk("jane").await;
    let elsewhere = Browser::new(&app);
    let (status, refused) = json_of(elsewhere.get(&back).await).await;
    assert_eq!((status, &refused["code"]), (401, &json!("unauthenticated")), "a browser that didn't start the sign-in");
    elsewhere.get(&format!("{}{START}", app.url(""))).await;
    assert_eq!(elsewhere.get(&back).await.status(), 401, "a browser that started another sign-in");

    let kept = browser.cookies.cookies(&app.url("").parse().unwrap()).unwrap();
    assert_eq!(browser.get(&back).await.status(), 200);
    assert_eq!(browser.get(&back).await.status(), 401, "the sign-in is finished");
    let path = back.replace("http://telemetry.test", "");
    let replayed = app.request(Method::GET, &path, Credentials::Nothing).header("cookie", kept).send().await.unwrap();
    assert_eq!(replayed.status(), 401, "the code is used, even with the old cookie");
    assert_eq!(app.count("SELECT count(*) FROM user_sessions").await, 1);
}

/// Returns the status of this account's sign-in at this provider.
async fn status(provider: &RealProvider, app: &TestApp, login: &str) -> u16 {
    let browser = Browser::new(app);
    let (status, body) = json_of(browser.get(&browser.walk(login).await).await).await;
    assert!(status != 200 || body["user"]["email"].is_string(), "{}: {body}", provider.issuer);
    status
}

#[tokio::test]
async fn tokens_for_several_audiences_must_authorize_this_client() {
    for (azp, expected) in [(Some("telemetry"), 200), (Some("another-client"), 401), (None, 401)] {
        let provider = RealProvider::start_as(json!({"audiences": ["project-1", "project-2"], "azp": azp})).await;
        let app = provider.app().await;
        assert_eq!(status(&provider, &app, "jane").await, expected, "azp: {azp:?}");
    }
    let provider = RealProvider::start_as(json!({"audiences": [], "azp": "another-client"})).await;
    assert_eq!(status(&provider, &provider.app().await, "jane").await, 401, "one audience, issued for another client");
}

#[tokio::test]
async fn accepts_email_verified_as_a_string() {
    for in_id_token in [true, false] {
        let provider = RealProvider::start_as(json!({"in_id_token": in_id_token})).await;
        let app = provider.app().await;
        assert_eq!(status(&provider, &app, "text").await, 200, "in the ID token: {in_id_token}");
        assert_eq!(status(&provider, &app, "text-no").await, 403, "in the ID token: {in_id_token}");
    }
}

#[tokio::test]
async fn sends_the_client_secret_as_advertised() {
    let (basic, post) = ("client_secret_basic", "client_secret_post");
    for (registered, advertised) in [
        (post, vec![post]),
        (post, vec![basic, post]),
        (basic, vec![basic]),
        (basic, vec![post, basic]),
        (basic, vec![basic, "none"]),
    ] {
        let provider = RealProvider::start_as(json!({"auth_method": registered, "auth_methods": advertised})).await;
        let app = provider.app().await;
        assert_eq!(status(&provider, &app, "jane").await, 200, "{registered} of {advertised:?}");
    }
}

#[tokio::test]
async fn missing_email_verified_requires_trust_email() {
    for in_id_token in [true, false] {
        let provider = RealProvider::start_as(json!({"in_id_token": in_id_token})).await;
        let (app, trusting) = (provider.app().await, provider.app_with(true).await);
        assert_eq!(status(&provider, &app, "unsaid").await, 403, "in the ID token: {in_id_token}");
        assert_eq!(status(&provider, &trusting, "unsaid").await, 200, "in the ID token: {in_id_token}");
        for untrusted in ["joe", "text-no", "silent"] {
            assert_eq!(status(&provider, &trusting, untrusted).await, 403, "{untrusted}, in the ID token: {in_id_token}");
        }
    }
}
