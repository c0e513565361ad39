//! Test app: an identity-api with its own database, and functions that create people and keys.

pub(crate) use service_kit::testing::{Credentials, TestResponse, send_request};

use chrono::SubsecRound;
use identity_api::domains::DomainSettings;
use identity_api::mail::MailSettings;
use identity_api::sign_in::SignInSettings;
use identity_api::webhooks::DeliveryLogSettings;
use identity_api::{Settings, State, organizations, routes, user_sessions};
use reqwest::Method;
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
use service_kit::testing::{TestServer, TestStores};
use std::sync::Arc;
use std::time::{Duration, Instant};
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
/// Maximum time for retrying requests while the service is busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// An unknown id.
pub(crate) const UNKNOWN_ID: &str = "01900000-0000-7000-8000-000000000000";

pub(crate) type TestApp = service_kit::testing::TestApp<Identity>;

pub(crate) struct Identity {
    pub(crate) clock: Clock,
    pub(crate) sealer: Sealer,
    /// Folder for emails as files.
    pub(crate) mail_dir: TempDir,
    pub(crate) state: Arc<State>,
    settings: Settings,
    _server: TestServer,
}

impl Identity {
    pub(crate) async fn open() -> TestApp {
        Self::open_for(Clock::System, sign_in()).await
    }

    pub(crate) async fn open_with_manual_clock() -> TestApp {
        Self::open_for(manual_clock(), sign_in()).await
    }

    pub(crate) async fn open_for(clock: Clock, sign_in: SignInSettings) -> TestApp {
        let stores = TestStores::unprepared().await;
        Self::open_as(stores, clock, WebhookSettings::default(), sign_in, DomainSettings::default()).await
    }

    /// Opens another process on the same stores, with its own clock.
    pub(crate) async fn beside(app: &TestApp, clock: Clock) -> TestApp {
        Self::open_on(app.stores.clone(), clock, WebhookSettings::default(), DomainSettings::default()).await
    }

    pub(crate) async fn open_on(stores: TestStores, clock: Clock, webhooks: WebhookSettings, domains: DomainSettings) -> TestApp {
        Self::open_as(stores, clock, webhooks, sign_in(), domains).await
    }

    /// Uses a manual clock and this limit of pending deliveries per endpoint.
    pub(crate) async fn open_with_backlog(webhook_pending: u32) -> TestApp {
        let app = Self::open_with_manual_clock().await;
        let delivery_log = DeliveryLogSettings { webhook_pending, ..DeliveryLogSettings::default() };
        let Identity { clock, settings, mail_dir, .. } = app.service;
        Self::serving(app.stores, clock, mail_dir, Settings { delivery_log, ..settings }).await
    }

    pub(crate) async fn open_as(
        stores: TestStores,
        clock: Clock,
        webhooks: WebhookSettings,
        sign_in: SignInSettings,
        domains: DomainSettings,
    ) -> TestApp {
        let mail_dir = tempfile::tempdir().unwrap();
        let mail = MailSettings { mail_dir: Some(mail_dir.path().to_owned()), ..MailSettings::default() };
        let settings = Settings {
            postgres: stores.signed_in_as(Role::Identity).postgres,
            secrets: SecretsSettings { secrets_key: Some(SecretsKey::generate()) },
            webhooks,
            mail,
            sign_in,
            domains,
            delivery_log: DeliveryLogSettings::default(),
        };
        Self::serving(stores, clock, mail_dir, settings).await
    }

    async fn serving(stores: TestStores, clock: Clock, mail_dir: TempDir, settings: Settings) -> TestApp {
        let state = State::connect(&settings, clock.clone()).await.unwrap();
        let server = TestServer::start(http::with_request_middleware(routes(Arc::clone(&state)))).await;
        let (url, sealer) = (server.url.clone(), settings.secrets.sealer().unwrap());
        TestApp::new(stores, &url, Self { clock, sealer, mail_dir, state, settings, _server: server })
    }

    /// Returns the current time as in responses.
    pub(crate) fn now_text(&self) -> Value {
        json!(instant::text(self.clock.now()))
    }

    /// Serves another process on the same stores.
    pub(crate) async fn second_server(&self) -> TestServer {
        TestServer::start(http::with_request_middleware(routes(self.second_state().await))).await
    }

    /// Opens another process on the same stores without serving it.
    pub(crate) async fn second_state(&self) -> Arc<State> {
        State::connect(&self.settings, self.clock.clone()).await.unwrap()
    }
}

/// Gives the tests' extension traits the app.
pub(crate) trait Identified {
    fn app(&self) -> &TestApp;
}

impl Identified for TestApp {
    fn app(&self) -> &TestApp {
        self
    }
}

pub(crate) trait Requests: Identified {
    /// Creates a content owner with a key that has every scope.
    async fn org(&self, name: &str) -> (OrgId, String) {
        self.app().org_of(name, OrgType::ContentOwner).await
    }

    /// Creates a platform with a key that has every scope.
    async fn platform(&self, name: &str) -> (OrgId, String) {
        self.app().org_of(name, OrgType::Platform).await
    }

    async fn org_of(&self, name: &str, org_type: OrgType) -> (OrgId, String) {
        let org = self.app().seed().org(name, org_type).await;
        let key = self.app().seed().key(org.id, org_type, &schemas::identity::Scope::ALL).await;
        (org.id, key)
    }

    /// Creates a content owner with a verified domain.
    async fn owner_of(&self, domain: &str) -> (OrgId, String) {
        let (org, key) = self.app().org(domain).await;
        self.app().seed().verify(org, domain).await;
        (org, key)
    }

    /// Opens a session for a person who owns these organizations.
    async fn session(&self, email: &str, owns: &[OrgId]) -> String {
        let person = organizations::ensure_user(&self.app().stores.pool, email, false).await.unwrap();
        for org in owns {
            organizations::ensure_owner(&self.app().stores.pool, *org, person).await.unwrap();
        }
        let session = user_sessions::open_session(&self.app().stores.pool, person, self.app().clock.now()).await.unwrap();
        session.reveal().to_owned()
    }

    async fn grant(&self, owner: &str, grantee: OrgId) -> TestResponse {
        self.app().post(Credentials::Key(owner), DELEGATIONS, &json!({"grantee_org_id": grantee})).await
    }

    async fn request_delegation(&self, platform: &str, domain: &str) -> TestResponse {
        self.app().post(Credentials::Key(platform), REQUESTS, &json!({"domain": domain})).await
    }

    /// `verb` is approve or deny.
    async fn answer_request(&self, key: &str, id: &str, verb: &str) -> TestResponse {
        send_request(self.app().request(Method::POST, &format!("{REQUESTS}/{id}/{verb}"), Credentials::Key(key))).await
    }

    async fn subscribe(&self, key: &str, event_types: &[&str]) -> TestResponse {
        let body = json!({"url": "https://hooks.a.test/in", "event_types": event_types});
        self.app().post(Credentials::Key(key), WEBHOOKS, &body).await
    }

    /// Returns the message bodies for an endpoint, oldest first.
    async fn outbox(&self, endpoint: &TestResponse) -> Vec<Value> {
        let id: uuid::Uuid = endpoint.body["id"].as_str().unwrap().parse().unwrap();
        let bodies: Vec<String> =
            sqlx::query_scalar("SELECT body FROM webhook_deliveries WHERE endpoint_id = $1 ORDER BY created_at, id")
                .bind(id)
                .fetch_all(&self.app().stores.pool)
                .await
                .unwrap();
        bodies.iter().map(|body| serde_json::from_str(body).unwrap()).collect()
    }

    async fn listed_with_total(&self, shows: Credentials<'_>, path: &str) -> (Vec<Value>, String) {
        let response = self.app().request(Method::GET, path, shows).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        let total = response.headers()["x-total-count"].to_str().unwrap().to_owned();
        (response.json().await.unwrap(), total)
    }

    /// Returns the actions in an organization's audit trail, oldest first.
    async fn audited(&self, org: OrgId) -> Vec<String> {
        sqlx::query_scalar("SELECT action FROM audit_log WHERE organization_id = $1 ORDER BY id")
            .bind(org.0)
            .fetch_all(&self.app().stores.pool)
            .await
            .unwrap()
    }

    async fn list(&self, shows: Credentials<'_>) -> TestResponse {
        self.app().get(shows, KEYS).await
    }

    async fn create(&self, shows: Credentials<'_>, body: &Value) -> TestResponse {
        self.app().post(shows, KEYS, body).await
    }

    async fn revoke(&self, shows: Credentials<'_>, id: &str) -> TestResponse {
        self.app().delete(shows, &format!("{KEYS}/{id}")).await
    }
}

impl Requests for TestApp {}

/// Retries a request that found no slot, as clients do, because on a busy machine many concurrent requests can time out.
pub(crate) async fn until_served<F: Future<Output = TestResponse>>(request: impl Fn() -> F) -> TestResponse {
    let begun = Instant::now();
    loop {
        let answer = request().await;
        if !is_busy(&answer) {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Returns whether the request found no slot or connection, rather than exceeding a rate, budget or limit.
fn is_busy(answer: &TestResponse) -> bool {
    let detail = answer.body["detail"].as_str().unwrap_or_default();
    match answer.refusal() {
        (503, "unavailable") => true,
        (429, "too_many_requests") => detail.starts_with("Too many of your requests are in progress."),
        _ => false,
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
