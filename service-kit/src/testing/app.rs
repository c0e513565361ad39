//! The one test app: a running service with its own stores, and a client that returns statuses and JSON.

use super::{Seed, TestLog, TestStores, client};
use reqwest::header::HeaderMap;
use reqwest::{Body, Method, RequestBuilder};
use schemas::identity::OrgType;
use schemas::problem::Fault;
use schemas::summary_responses::Summary;
use serde_json::{Value, json};
use std::ops::{Deref, DerefMut};

/// A service with stores of its own. `S` contains what only one crate's tests need, such as the server and a clock.
pub struct TestApp<S> {
    pub stores: TestStores,
    pub log: TestLog,
    pub client: reqwest::Client,
    pub service: S,
    url: String,
}

#[derive(Clone, Copy, Debug)]
pub enum Credentials<'a> {
    Nothing,
    Key(&'a str),
    Session(&'a str),
    Both(&'a str, &'a str),
}

/// Returns an API key, or nothing for an empty text.
impl<'a, T: AsRef<str> + ?Sized> From<&'a T> for Credentials<'a> {
    fn from(key: &'a T) -> Self {
        Some(key.as_ref()).filter(|key| !key.is_empty()).map_or(Self::Nothing, Self::Key)
    }
}

impl Credentials<'_> {
    fn add_to(self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Self::Nothing => request,
            Self::Key(key) => request.header("x-api-key", key),
            Self::Session(session) => request.bearer_auth(session),
            Self::Both(key, session) => request.header("x-api-key", key).bearer_auth(session),
        }
    }
}

impl<S> Deref for TestApp<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.service
    }
}

impl<S> DerefMut for TestApp<S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.service
    }
}

impl<S> TestApp<S> {
    pub fn new(stores: TestStores, url: &str, service: S) -> Self {
        Self { log: TestLog::connect(&stores.kafka), stores, client: client(), service, url: url.to_owned() }
    }

    /// Uses another service with the same stores.
    #[must_use]
    pub fn served_at(self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    pub fn seed(&self) -> Seed<'_> {
        Seed(&self.stores.pool)
    }

    /// Creates an organization, and returns its key.
    pub async fn key(&self, name: &str, org_type: OrgType) -> String {
        self.seed().org(name, org_type).await.key
    }

    pub fn request<'a>(&self, method: Method, path: &str, by: impl Into<Credentials<'a>>) -> RequestBuilder {
        by.into().add_to(self.client.request(method, self.url(path)))
    }

    /// Returns a POST request for a JSON body.
    pub fn post_request<'a>(&self, path: &str, by: impl Into<Credentials<'a>>) -> RequestBuilder {
        self.request(Method::POST, path, by).header("content-type", "application/json")
    }

    /// Sends a JSON body.
    pub async fn send<'a>(
        &self,
        method: Method,
        by: impl Into<Credentials<'a>>,
        path: &str,
        body: impl Into<Body>,
    ) -> TestResponse {
        send_request(self.request(method, path, by).header("content-type", "application/json").body(body)).await
    }

    pub async fn get<'a>(&self, by: impl Into<Credentials<'a>>, path: &str) -> TestResponse {
        send_request(self.request(Method::GET, path, by)).await
    }

    pub async fn post<'a>(&self, by: impl Into<Credentials<'a>>, path: &str, body: &Value) -> TestResponse {
        self.send(Method::POST, by, path, body.to_string()).await
    }

    pub async fn delete<'a>(&self, by: impl Into<Credentials<'a>>, path: &str) -> TestResponse {
        send_request(self.request(Method::DELETE, path, by)).await
    }

    /// Sends events.
    pub async fn report<'a>(&self, by: impl Into<Credentials<'a>>, body: &Value) -> TestResponse {
        self.post(by, "/events", body).await
    }

    /// Returns the id of a new session.
    pub async fn start_session(&self, key: &str, members: &Value) -> String {
        self.post(key, "/sessions/start", members).await.expect(201).text("session_id").to_owned()
    }

    /// Returns a new click token.
    pub async fn create_token(&self, key: &str, session: &str, url: &str) -> String {
        let body = json!({"session_id": session, "content_url": url});
        self.post(key, "/click-tokens", &body).await.expect(201).text("token").to_owned()
    }

    pub async fn read<'a>(&self, by: impl Into<Credentials<'a>>, path: &str, query: &[(&str, &str)]) -> TestResponse {
        let mut url = reqwest::Url::parse(&self.url(path)).expect("a test's path is valid");
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        send_request(by.into().add_to(self.client.get(url))).await
    }

    /// Returns the body of a read that must succeed.
    pub async fn page<'a>(&self, by: impl Into<Credentials<'a>>, path: &str, query: &[(&str, &str)]) -> Value {
        let answer = self.read(by, path, query).await;
        assert_eq!(answer.status, 200, "{path} {query:?}: {}", answer.raw);
        answer.body
    }

    pub async fn get_summary<'a>(&self, by: impl Into<Credentials<'a>>, query: &[(&str, &str)]) -> TestResponse {
        self.read(by, "/content-owners/summary", query).await
    }

    /// Returns an owner's summary, whose counts by type must add up.
    pub async fn summary<'a>(&self, by: impl Into<Credentials<'a>>, query: &[(&str, &str)]) -> Summary {
        let answer = self.get_summary(by, query).await.expect(200);
        let summary: Summary = serde_json::from_str(&answer.raw).expect("it is a summary");
        let by_type: u64 = summary.events_by_type.iter().map(|of| of.count).sum();
        assert_eq!(by_type, summary.total_events, "events_by_type adds up to total_events");
        summary
    }

    pub async fn total<'a>(&self, by: impl Into<Credentials<'a>>, query: &[(&str, &str)]) -> u64 {
        self.summary(by, query).await.total_events
    }

    /// Waits until the worker has stored and committed every record of the log.
    pub async fn caught_up(&self) {
        self.log.caught_up(&self.stores.clickhouse).await;
    }

    /// Returns the only value that a PostgreSQL statement returns.
    pub async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.stores.pool).await.expect("the statement returns a number")
    }
}

/// Equal responses have the same status and body, apart from the ids of their requests.
#[derive(Clone, Debug)]
pub struct TestResponse {
    pub status: u16,
    pub headers: HeaderMap,
    /// The JSON document, null for an empty body, or text.
    pub body: Value,
    /// The body as received.
    pub raw: String,
}

pub async fn send_request(request: RequestBuilder) -> TestResponse {
    let response = request.send().await.expect("the service responds");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let raw = response.text().await.expect("the body arrives");
    let text = || if raw.is_empty() { Value::Null } else { Value::String(raw.clone()) };
    TestResponse { status, headers, body: serde_json::from_str(&raw).unwrap_or_else(|_| text()), raw }
}

impl PartialEq for TestResponse {
    fn eq(&self, other: &Self) -> bool {
        let is_success = self.status < 400;
        self.status == other.status
            && if is_success { self.raw == other.raw } else { self.without_request_id() == other.without_request_id() }
    }
}

impl TestResponse {
    /// Asserts the status.
    #[must_use]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.raw);
        self
    }

    fn without_request_id(&self) -> Value {
        let mut body = self.body.clone();
        body.as_object_mut().and_then(|body| body.remove("request_id"));
        body
    }

    /// Returns the status and body of an error, which must have a request id, without that id.
    pub fn problem(&self) -> (u16, Value) {
        assert!(self.body["request_id"].is_string(), "{}", self.raw);
        (self.status, self.without_request_id())
    }

    /// Returns the status and the error code.
    pub fn refusal(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }

    /// Returns each fault as `index.field:code`.
    pub fn faults(&self) -> Vec<String> {
        let faults: Vec<Fault> = serde_json::from_value(self.body["errors"].clone()).unwrap_or_default();
        faults.iter().map(name_of_fault).collect()
    }

    pub fn text(&self, member: &str) -> &str {
        self.body[member].as_str().unwrap_or_else(|| panic!("{member} of {}", self.raw))
    }

    /// Returns a header, or an empty text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// Returns a fault as `index.field:code`.
pub fn name_of_fault(fault: &Fault) -> String {
    let place = fault.index.map(|index| format!("{index}.")).unwrap_or_default();
    format!("{place}{}:{}", fault.field, fault.code)
}
