//! An HTTP proxy for ClickHouse that records requests and can change them.

use super::{TestServer, clickhouse_request};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Response};
use std::sync::{Arc, Mutex, PoisonError};

/// A request to ClickHouse: the settings in the URL and the statement in the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClickHouseRequest {
    pub settings: Vec<(String, String)>,
    pub statement: String,
}

type Change = Arc<dyn Fn(&mut ClickHouseRequest) + Send + Sync>;

#[derive(Clone)]
struct Proxy {
    upstream: String,
    change: Change,
    asked: Arc<Mutex<Vec<ClickHouseRequest>>>,
}

pub struct ClickHouseProxy {
    server: TestServer,
    asked: Arc<Mutex<Vec<ClickHouseRequest>>>,
}

impl ClickHouseProxy {
    /// Starts a proxy for the server at `upstream` that applies `change` to each request.
    pub async fn start_before(upstream: &str, change: impl Fn(&mut ClickHouseRequest) + Send + Sync + 'static) -> Self {
        let asked = Arc::default();
        let upstream = upstream.trim_end_matches('/').to_owned();
        let proxy = Proxy { upstream, change: Arc::new(change), asked: Arc::clone(&asked) };
        Self { server: TestServer::start(Router::new().fallback(pass_on).with_state(proxy)).await, asked }
    }

    pub fn url(&self) -> &str {
        &self.server.url
    }

    /// Returns and clears the recorded requests, as they were before changes.
    pub fn take_requests(&self) -> Vec<ClickHouseRequest> {
        std::mem::take(&mut *self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn pass_on(State(proxy): State<Proxy>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let mut url = reqwest::Url::parse(&format!("{}{uri}", proxy.upstream)).expect("a request has an address");
    let settings = url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned())).collect();
    let text = String::from_utf8(body.to_vec()).ok();
    let mut request = ClickHouseRequest { settings, statement: text.clone().unwrap_or_default() };
    proxy.asked.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
    (proxy.change)(&mut request);
    url.query_pairs_mut().clear().extend_pairs(&request.settings);
    let body = text.map_or(body, |_| Bytes::from(request.statement));
    let framing = ["host", "content-length", "transfer-encoding", "connection"];
    let mut asked = clickhouse_request(method, url.as_str()).body(body);
    for (name, value) in headers.iter().filter(|(name, _)| !framing.contains(&name.as_str())) {
        asked = asked.header(name, value);
    }
    let answer = asked.send().await.expect("ClickHouse responds");
    let (status, headers) = (answer.status(), answer.headers().clone());
    let mut passed = (status, answer.bytes().await.expect("ClickHouse sends the whole response")).into_response();
    for (name, value) in headers.iter().filter(|(name, _)| !framing.contains(&name.as_str())) {
        passed.headers_mut().insert(name, value.clone());
    }
    passed
}
