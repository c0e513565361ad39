//! A gateway with its own stores, and dry runs of requests.

pub(crate) use service_kit::testing::{Credentials, TestResponse, send_request};

use ingest_gateway::{Document, DrainSettings, Durability, Limits, Settings, State, dry_run, routes};
use schemas::identity::OrgType;
use schemas::log::{LogEvent, LogRecord};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::http::{self, ApiError};
use service_kit::roles::Role;
use service_kit::secret_encryption::SecretsSettings;
use service_kit::settings::WebhookSettings;
use service_kit::testing::{TestServer, TestStores, name_of_fault};
use tempfile::TempDir;

/// A session that was never started.
pub(crate) const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const AT: &str = "2026-11-01T10:00:00Z";

pub(crate) type TestApp = service_kit::testing::TestApp<Gateway>;

pub(crate) struct Gateway {
    pub(crate) server: TestServer,
    _spill: TempDir,
}

impl Gateway {
    pub(crate) async fn start() -> TestApp {
        Self::start_with(Limits::default()).await
    }

    pub(crate) async fn with_agent() -> (TestApp, String) {
        let gateway = Self::start().await;
        let key = gateway.key("agent", OrgType::Agent).await;
        (gateway, key)
    }

    pub(crate) async fn start_with(limits: Limits) -> TestApp {
        Self::start_as(TestStores::with_topics().await, |usual| Settings { limits, ..usual }).await
    }

    pub(crate) async fn start_draining(drains: DrainSettings) -> TestApp {
        Self::start_as(TestStores::with_topics().await, |usual| Settings { drains, ..usual }).await
    }

    /// Starts a gateway with these encryption keys for stored secrets.
    pub(crate) async fn start_opening(secrets: SecretsSettings) -> TestApp {
        Self::start_as(TestStores::with_topics().await, |usual| Settings { secrets, ..usual }).await
    }

    /// Starts a gateway that fetches agents' key sets with these settings.
    pub(crate) async fn start_fetching(webhooks: WebhookSettings) -> TestApp {
        Self::start_fetching_on(TestStores::with_topics().await, webhooks).await
    }

    pub(crate) async fn start_fetching_on(stores: TestStores, webhooks: WebhookSettings) -> TestApp {
        Self::start_as(stores, |usual| Settings { webhooks, ..usual }).await
    }

    /// Starts a gateway with these durability settings. Unless they name a spill folder, it gets its own.
    pub(crate) async fn start_on(stores: TestStores, durability: Durability) -> TestApp {
        Self::start_as(stores, |usual| Settings { durability, ..usual }).await
    }

    async fn start_as(stores: TestStores, changed: impl FnOnce(Settings) -> Settings) -> TestApp {
        let spill = tempfile::tempdir().expect("a folder is made");
        let mut settings = changed(Settings::on(stores.kafka.clone(), stores.signed_in_as(Role::Gateway).postgres));
        settings.durability.spill_dir.get_or_insert_with(|| spill.path().to_owned());
        let state = State::connect(&settings, Clock::System).await.expect("the gateway connects");
        let server = TestServer::start(http::with_request_middleware(routes(state))).await;
        TestApp::new(stores, &server.url.clone(), Self { server, _spill: spill })
    }

    /// Starts another gateway on the same stores.
    pub(crate) async fn beside(app: &TestApp) -> TestApp {
        Self::start_on(app.stores.clone(), Durability::default()).await
    }
}

/// Returns a body's record without using a store. All click tokens are unknown.
pub(crate) fn dry_post(path: &str, body: impl AsRef<[u8]>) -> Result<LogRecord, ApiError> {
    let (document, _) = Document::ALL.into_iter().find(|(_, of)| *of == path).expect("a route that has a body");
    let now = chrono::DateTime::from_timestamp(1_793_530_000, 0).expect("a time in range");
    dry_run(body.as_ref(), document, &Limits::default(), now)
}

/// Like [`dry_post`], but returns the status and the faults.
pub(crate) fn try_body(path: &str, body: impl AsRef<[u8]>) -> Result<LogRecord, (u16, Vec<String>)> {
    dry_post(path, body).map_err(|error| (error.code().status(), error.listed().iter().map(name_of_fault).collect()))
}

/// Returns one event's stored form, or its faults.
pub(crate) fn try_event(event: &Value) -> Result<LogEvent, Vec<String>> {
    let tried = try_body("/events", json!({"events": [event]}).to_string());
    tried.map(|mut record| record.events.remove(0)).map_err(|(_, faults)| faults)
}

/// Returns the head of an HTTP/1.1 request with a body of this length.
pub(crate) fn head(path: &str, key: &str, length: usize) -> String {
    format!("{}content-length: {length}\r\n\r\n", open_head(path, key))
}

/// Like [`head`], without the length and the end, so headers can follow.
pub(crate) fn open_head(path: &str, key: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-type: application/json\r\n")
}

pub(crate) fn retrieval(url: &str) -> Value {
    json!({"type": "content_retrieved", "timestamp": AT, "source_role": "edge", "content_url": url})
}

/// Returns an event about a page, with these members replaced, or removed if null.
pub(crate) fn event(event_type: &str, members: Value) -> Value {
    with(json!({"type": event_type, "timestamp": AT, "content_url": "https://a.test/x"}), members)
}

/// Returns `object` with these members replaced, or removed if null.
pub(crate) fn with(mut object: Value, members: Value) -> Value {
    let (Value::Object(target), Value::Object(members)) = (&mut object, members) else { panic!("both are objects") };
    for (name, value) in members {
        if value.is_null() {
            target.remove(&name)
        } else {
            target.insert(name, value)
        };
    }
    object
}
