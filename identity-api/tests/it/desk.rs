//! The vocabulary of the tests: a served identity-api with a database of its own, and people and keys to ask it with.
//!
//! Must not assert anything.

use identity_api::{Settings, State, organizations, routes, user_sessions};
use reqwest::{Method, RequestBuilder};
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use serde_json::Value;
use service_kit::clock::Clock;
use service_kit::http;
use service_kit::testing::{Seed, TestServer, TestStores, client};

pub(crate) const KEYS: &str = "/api/v1/identity/api-keys";

pub(crate) struct Desk {
    pub(crate) stores: TestStores,
    server: TestServer,
    client: reqwest::Client,
}

/// A status and a body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

/// What a caller shows.
#[derive(Clone, Copy)]
pub(crate) enum Shows<'a> {
    Nothing,
    Key(&'a str),
    Session(&'a str),
    Both(&'a str, &'a str),
}

impl Desk {
    pub(crate) async fn open() -> Self {
        let stores = TestStores::fresh().await;
        let settings = Settings { postgres: stores.postgres.clone() };
        let state = State::connect(&settings, Clock::System).await.unwrap();
        let server = TestServer::start(http::with_boundary(routes(state))).await;
        Self { stores, server, client: client() }
    }

    pub(crate) fn seed(&self) -> Seed<'_> {
        Seed(&self.stores.pool)
    }

    /// An organisation, with a key of every scope.
    pub(crate) async fn org(&self, name: &str) -> (OrgId, String) {
        let org = self.seed().org(name, OrgType::ContentOwner).await;
        let key = self.seed().key(org.id, OrgType::ContentOwner, &schemas::identity::Scope::ALL).await;
        (org.id, key)
    }

    /// A session of a person who owns these organisations.
    pub(crate) async fn session(&self, email: &str, owns: &[OrgId]) -> String {
        let person = organizations::ensure_user(&self.stores.pool, email, false).await.unwrap();
        for org in owns {
            organizations::ensure_owner(&self.stores.pool, *org, person).await.unwrap();
        }
        let session = user_sessions::open_session(&self.stores.pool, person, Clock::System.now()).await.unwrap();
        session.reveal().to_owned()
    }

    pub(crate) fn request(&self, method: Method, path: &str, shows: Shows<'_>) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.server.url));
        match shows {
            Shows::Nothing => request,
            Shows::Key(key) => request.header("x-api-key", key),
            Shows::Session(session) => request.bearer_auth(session),
            Shows::Both(key, session) => request.header("x-api-key", key).bearer_auth(session),
        }
    }

    pub(crate) async fn list(&self, shows: Shows<'_>) -> Answer {
        answer(self.request(Method::GET, KEYS, shows)).await
    }

    pub(crate) async fn create(&self, shows: Shows<'_>, body: &Value) -> Answer {
        self.create_from(shows, body.to_string()).await
    }

    pub(crate) async fn create_from(&self, shows: Shows<'_>, body: impl Into<reqwest::Body>) -> Answer {
        let request = self.request(Method::POST, KEYS, shows).header("content-type", "application/json");
        answer(request.body(body)).await
    }

    pub(crate) async fn revoke(&self, shows: Shows<'_>, id: &str) -> Answer {
        answer(self.request(Method::DELETE, &format!("{KEYS}/{id}"), shows)).await
    }
}

/// Sends; the request id, which differs from request to request, is taken out of a problem.
pub(crate) async fn answer(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let mut body: Value = response.json().await.unwrap_or_default();
    if status >= 400
        && let Some(problem) = body.as_object_mut()
    {
        problem.remove("request_id");
    }
    Answer { status, body }
}

impl Answer {
    /// The status and the code of a refusal.
    pub(crate) fn refusal(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }
}
