//! Test app: an identity-api with its own database, and functions that create people and keys.

mod requests;

pub(crate) use requests::{Credentials, TestResponse, answer, until_served};

use chrono::SubsecRound;
use identity_api::domains::DomainSettings;
use identity_api::mail::MailSettings;
use identity_api::sign_in::SignInSettings;
use identity_api::webhooks::DeliveryLogSettings;
use identity_api::{Settings, State, organizations, routes, user_sessions};
use reqwest::{Method, RequestBuilder};
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::instant;
use serde_json::{Value, json};
use service_kit::client_address::ClientSettings;
use service_kit::clock::Clock;
use service_kit::http;
use service_kit::roles::Role;
use service_kit::secret_encryption::{Sealer, SecretsKey, SecretsSettings};
use service_kit::settings::WebhookSettings;
use service_kit::testing::{Seed, TestServer, TestStores, client};
use std::sync::Arc;
use tempfile::TempDir;

pub(crate) const KEYS: &str = "/api/v1/identity/api-keys";
pub(crate) const DELEGATIONS: &str = "/api/v1/identity/delegations";
pub(crate) const REQUESTS: &str = "/api/v1/identity/delegation-requests";
pub(crate) const DOMAINS: &str = "/api/v1/identity/domains";
pub(crate) const DRAINS: &str = "/api/v1/identity/drains";
pub(crate) const MANIFESTS: &str = "/api/v1/identity/manifests";
pub(crate) const SETTINGS: &str = "/api/v1/identity/settings";
pub(crate) const WEBHOOKS: &str = "/api/v1/identity/webhooks";
pub(crate) const MAGIC_LINK: &str = "/api/v1/identity/auth/magic-link";
pub(crate) const VERIFY: &str = "/api/v1/identity/auth/magic-link/verify";
pub(crate) const SESSION: &str = "/api/v1/identity/auth/session";
/// An unknown id.
pub(crate) const UNKNOWN_ID: &str = "01900000-0000-7000-8000-000000000000";

pub(crate) struct TestApp {
    pub(crate) stores: TestStores,
    pub(crate) clock: Clock,
    pub(crate) sealer: Sealer,
    /// Folder for emails as files.
    pub(crate) mail_dir: TempDir,
    pub(crate) state: Arc<State>,
    settings: Settings,
    server: TestServer,
    client: reqwest::Client,
}

impl TestApp {
    pub(crate) async fn open() -> Self {
        Self::open_for(Clock::System, sign_in()).await
    }

    /// Uses a manual clock.
    pub(crate) async fn open_with_manual_clock() -> Self {
        Self::open_for(manual_clock(), sign_in()).await
    }

    /// Uses other sign-in settings.
    pub(crate) async fn open_for(clock: Clock, sign_in: SignInSettings) -> Self {
        let stores = TestStores::unprepared().await;
        Self::open_as(stores, clock, WebhookSettings::default(), sign_in, DomainSettings::default()).await
    }

    /// Opens another process on the same stores, with its own clock.
    pub(crate) async fn beside(&self, clock: Clock) -> Self {
        Self::open_on(self.stores.clone(), clock, WebhookSettings::default(), DomainSettings::default()).await
    }

    /// Uses other domain verification settings.
    pub(crate) async fn open_on(stores: TestStores, clock: Clock, webhooks: WebhookSettings, domains: DomainSettings) -> Self {
        Self::open_as(stores, clock, webhooks, sign_in(), domains).await
    }

    /// Uses a manual clock and this limit of pending deliveries per endpoint.
    pub(crate) async fn open_with_backlog(webhook_pending: u32) -> Self {
        let app = Self::open_with_manual_clock().await;
        let delivery_log = DeliveryLogSettings { webhook_pending, ..DeliveryLogSettings::default() };
        let settings = Settings { delivery_log, ..app.settings.clone() };
        app.restarted(settings).await
    }

    async fn restarted(self, settings: Settings) -> Self {
        let state = State::connect(&settings, self.clock.clone()).await.unwrap();
        let server = TestServer::start(http::with_request_middleware(routes(Arc::clone(&state)))).await;
        Self { server, state, settings, ..self }
    }

    pub(crate) async fn open_as(
        stores: TestStores,
        clock: Clock,
        webhooks: WebhookSettings,
        sign_in: SignInSettings,
        domains: DomainSettings,
    ) -> Self {
        let secrets = SecretsSettings { secrets_key: Some(SecretsKey::generate()) };
        let sealer = secrets.sealer().unwrap();
        let mail_dir = tempfile::tempdir().unwrap();
        let mail = MailSettings { mail_dir: Some(mail_dir.path().to_owned()), ..MailSettings::default() };
        let settings = Settings {
            postgres: stores.signed_in_as(Role::Identity).postgres,
            secrets,
            webhooks,
            mail,
            sign_in,
            domains,
            delivery_log: DeliveryLogSettings::default(),
        };
        let state = State::connect(&settings, clock.clone()).await.unwrap();
        let server = TestServer::start(http::with_request_middleware(routes(Arc::clone(&state)))).await;
        Self { state, stores, clock, sealer, mail_dir, settings, server, client: client() }
    }

    /// Returns the current time as in responses.
    pub(crate) fn now_text(&self) -> Value {
        json!(instant::text(self.clock.now()))
    }

    pub(crate) fn url(&self) -> &str {
        &self.server.url
    }

    /// Serves another process on the same stores.
    pub(crate) async fn second_server(&self) -> TestServer {
        TestServer::start(http::with_request_middleware(routes(self.second_state().await))).await
    }

    /// Opens another process on the same stores without serving it.
    pub(crate) async fn second_state(&self) -> Arc<State> {
        State::connect(&self.settings, self.clock.clone()).await.unwrap()
    }

    pub(crate) fn seed(&self) -> Seed<'_> {
        Seed(&self.stores.pool)
    }

    /// Creates a content owner with a key that has every scope.
    pub(crate) async fn org(&self, name: &str) -> (OrgId, String) {
        self.org_of(name, OrgType::ContentOwner).await
    }

    /// Creates a platform with a key that has every scope.
    pub(crate) async fn platform(&self, name: &str) -> (OrgId, String) {
        self.org_of(name, OrgType::Platform).await
    }

    pub(crate) async fn org_of(&self, name: &str, org_type: OrgType) -> (OrgId, String) {
        let org = self.seed().org(name, org_type).await;
        let key = self.seed().key(org.id, org_type, &schemas::identity::Scope::ALL).await;
        (org.id, key)
    }

    /// Creates a content owner with a verified domain.
    pub(crate) async fn owner_of(&self, domain: &str) -> (OrgId, String) {
        let (org, key) = self.org(domain).await;
        self.seed().verify(org, domain).await;
        (org, key)
    }

    /// Opens a session for a person who owns these organizations.
    pub(crate) async fn session(&self, email: &str, owns: &[OrgId]) -> String {
        let person = organizations::ensure_user(&self.stores.pool, email, false).await.unwrap();
        for org in owns {
            organizations::ensure_owner(&self.stores.pool, *org, person).await.unwrap();
        }
        let session = user_sessions::open_session(&self.stores.pool, person, self.clock.now()).await.unwrap();
        session.reveal().to_owned()
    }

    pub(crate) fn request(&self, method: Method, path: &str, shows: Credentials<'_>) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.server.url));
        match shows {
            Credentials::Nothing => request,
            Credentials::Key(key) => request.header("x-api-key", key),
            Credentials::Session(session) => request.bearer_auth(session),
            Credentials::Both(key, session) => request.header("x-api-key", key).bearer_auth(session),
        }
    }

    pub(crate) async fn get(&self, shows: Credentials<'_>, path: &str) -> TestResponse {
        answer(self.request(Method::GET, path, shows)).await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        shows: Credentials<'_>,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> TestResponse {
        answer(self.request(method, path, shows).header("content-type", "application/json").body(body)).await
    }

    pub(crate) async fn post(&self, shows: Credentials<'_>, path: &str, body: &Value) -> TestResponse {
        self.send(Method::POST, shows, path, body.to_string()).await
    }

    pub(crate) async fn delete(&self, shows: Credentials<'_>, path: &str) -> TestResponse {
        answer(self.request(Method::DELETE, path, shows)).await
    }

    pub(crate) async fn grant(&self, owner: &str, grantee: OrgId) -> TestResponse {
        self.post(Credentials::Key(owner), DELEGATIONS, &json!({"grantee_org_id": grantee})).await
    }

    pub(crate) async fn request_delegation(&self, platform: &str, domain: &str) -> TestResponse {
        self.post(Credentials::Key(platform), REQUESTS, &json!({"domain": domain})).await
    }

    /// `verb` is approve or deny.
    pub(crate) async fn answer_request(&self, key: &str, id: &str, verb: &str) -> TestResponse {
        answer(self.request(Method::POST, &format!("{REQUESTS}/{id}/{verb}"), Credentials::Key(key))).await
    }

    pub(crate) async fn subscribe(&self, key: &str, event_types: &[&str]) -> TestResponse {
        let body = json!({"url": "https://hooks.a.test/in", "event_types": event_types});
        self.post(Credentials::Key(key), WEBHOOKS, &body).await
    }

    /// Returns the message bodies for an endpoint, oldest first.
    pub(crate) async fn outbox(&self, endpoint: &TestResponse) -> Vec<Value> {
        let id: uuid::Uuid = endpoint.body["id"].as_str().unwrap().parse().unwrap();
        let bodies: Vec<String> =
            sqlx::query_scalar("SELECT body FROM webhook_deliveries WHERE endpoint_id = $1 ORDER BY created_at, id")
                .bind(id)
                .fetch_all(&self.stores.pool)
                .await
                .unwrap();
        bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }

    pub(crate) async fn page(&self, shows: Credentials<'_>, path: &str) -> (Vec<Value>, String) {
        let response = self.request(Method::GET, path, shows).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let total = response.headers()["x-total-count"].to_str().unwrap().to_owned();
        (response.json().await.unwrap(), total)
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.stores.pool).await.unwrap()
    }

    /// Returns the actions in an organization's audit trail, oldest first.
    pub(crate) async fn audited(&self, org: OrgId) -> Vec<String> {
        sqlx::query_scalar("SELECT action FROM audit_log WHERE organization_id = $1 ORDER BY id")
            .bind(org.0)
            .fetch_all(&self.stores.pool)
            .await
            .unwrap()
    }

    pub(crate) async fn list(&self, shows: Credentials<'_>) -> TestResponse {
        self.get(shows, KEYS).await
    }

    pub(crate) async fn create(&self, shows: Credentials<'_>, body: &Value) -> TestResponse {
        self.post(shows, KEYS, body).await
    }

    pub(crate) async fn revoke(&self, shows: Credentials<'_>, id: &str) -> TestResponse {
        self.delete(shows, &format!("{KEYS}/{id}")).await
    }
}

/// Returns a manual clock that starts at a whole millisecond, the precision of stored times.
pub(crate) fn manual_clock() -> Clock {
    Clock::manual(Clock::System.now().trunc_subsecs(3))
}

/// Returns settings with a public URL and without limits.
pub(crate) fn sign_in() -> SignInSettings {
    let public_url = Some("http://telemetry.test".parse().unwrap());
    let unlimited = SignInSettings { invites: 0, invites_to_address: 0, ..SignInSettings::default() };
    let clients = ClientSettings { refused_rate: 0, ..ClientSettings::default() };
    let rates = SignInSettings { sign_in_rate: 0, identity_rate: 0, identity_bytes: 0, delegations_per_pair: 0, ..unlimited };
    SignInSettings { public_url, clients, ..rates }
}
