//! The HTTP client: sends requests, and turns error responses into failures.
//!
//! It doesn't follow redirects, so a credential is sent only to its own address. Its errors don't repeat what was sent.

use crate::failure::{ErrorResponse, Failure, root_cause};
use crate::secret::Secret;
use axum::body::Bytes;
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, DATE, RETRY_AFTER, USER_AGENT};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use schemas::problem::Problem;
use serde_json::Value;
use service_kit::auth::API_KEY_HEADER;
use std::sync::Arc;
use std::time::Duration;
use url::Url;
use uuid::Uuid;

/// Longer than the service's own deadlines, because its error responses explain the failure.
const DEADLINE: Duration = Duration::from_secs(150);
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// Limits on the size and duration of an error response. Its status is the most important part.
const MAX_PROBLEM_BYTES: usize = 1024 * 1024;
const PROBLEM_DEADLINE: Duration = Duration::from_secs(10);
/// Maximum `Retry-After` to respect, in seconds.
const MAX_RETRY_AFTER: u64 = 3_600;

#[derive(Clone, Debug)]
pub(crate) enum Credential {
    /// An organization's API key.
    Key(Secret),
    Session(Secret),
}

/// Query parameters in the order in which they are sent.
pub(crate) type Parameters = Vec<(&'static str, String)>;

/// A service address with one credential.
pub(crate) struct Client {
    http: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: Url,
    credential: Option<Credential>,
    organization: Option<Uuid>,
}

#[derive(Clone, Default)]
pub(crate) struct RequestContent {
    pub(crate) media_type: Option<&'static str>,
    pub(crate) encoding: Option<&'static str>,
    pub(crate) accept: Option<&'static str>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// A response that isn't an error.
pub(crate) struct Response {
    headers: HeaderMap,
    body: Incoming,
}

impl Client {
    pub(crate) fn new(base: Url, credential: Option<Credential>, organization: Option<Uuid>) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if base.scheme() == "https" && roots.is_empty() {
            return Err(Failure::Failed("no trusted certificate authorities found: install ca-certificates".to_owned()));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Failure::Failed(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.set_connect_timeout(Some(CONNECT_DEADLINE));
        tcp.enforce_http(false);
        let https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
        Ok(Self { http: legacy::Client::builder(TokioExecutor::new()).build(https), base, credential, organization })
    }

    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    pub(crate) fn credential(&self) -> Option<&Credential> {
        self.credential.as_ref()
    }

    /// Sends a GET request and returns the JSON response.
    pub(crate) async fn get(&self, path: &str, parameters: &Parameters) -> Result<Value, Failure> {
        self.send(Method::GET, path, parameters, RequestContent::default()).await?.json().await
    }

    /// Sends a change with a JSON body and returns the JSON response, or null for an empty one.
    pub(crate) async fn change(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let content = body.map(|body| RequestContent {
            media_type: Some("application/json"),
            body: Bytes::from(body.to_string()),
            ..RequestContent::default()
        });
        self.send(method, path, &Vec::new(), content.unwrap_or_default()).await?.json().await
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        parameters: &Parameters,
        content: RequestContent,
    ) -> Result<Response, Failure> {
        let request = self.request(method, path, parameters, content)?;
        let asked = tokio::time::timeout(DEADLINE, self.http.request(request)).await;
        let response =
            asked.map_err(|_| self.unreachable("no response in time"))?.map_err(|error| self.unreachable(&root_cause(&error)))?;
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            return Ok(Response { headers: parts.headers, body });
        }
        let retry_after = retry_after(&parts.headers);
        let body = tokio::time::timeout(PROBLEM_DEADLINE, Limited::new(body, MAX_PROBLEM_BYTES).collect()).await;
        let problem: Option<Problem> =
            body.ok().and_then(Result::ok).and_then(|body| serde_json::from_slice(&body.to_bytes()).ok());
        Err(Failure::Rejected(Box::new(ErrorResponse { status: parts.status.as_u16(), problem, retry_after })))
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        parameters: &Parameters,
        content: RequestContent,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::builder().method(method).uri(self.url(path, parameters).as_str());
        let headers = request.headers_mut().ok_or_else(|| Failure::Usage(format!("{}: invalid address", self.base)))?;
        *headers = content.headers;
        let said = [(CONTENT_TYPE, content.media_type), (CONTENT_ENCODING, content.encoding), (ACCEPT, content.accept)];
        for (name, value) in said {
            headers.extend(value.map(|value| (name, HeaderValue::from_static(value))));
        }
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("telemetry-cli/", env!("CARGO_PKG_VERSION"))));
        let credential = match &self.credential {
            Some(Credential::Key(key)) => Some((HeaderName::from_static(API_KEY_HEADER), key.reveal().to_owned())),
            Some(Credential::Session(session)) => Some((AUTHORIZATION, format!("Bearer {}", session.reveal()))),
            None => None,
        };
        if let Some((name, value)) = credential {
            let value = HeaderValue::try_from(value);
            let mut value = value.map_err(|_| Failure::Usage("the credential contains invalid characters".to_owned()))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        request.body(Full::new(content.body)).map_err(|error| Failure::Usage(error.to_string()))
    }

    fn url(&self, path: &str, parameters: &Parameters) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        // A key always reads for its own organization.
        let is_person = matches!(self.credential, Some(Credential::Session(_)));
        let about = self.organization.filter(|_| is_person).map(|id| ("organization_id", id.to_string()));
        let all: Vec<_> = about.iter().chain(parameters).collect();
        if !all.is_empty() {
            url.query_pairs_mut().extend_pairs(all.iter().map(|(name, value)| (name, value)));
        }
        url
    }

    fn unreachable(&self, why: &str) -> Failure {
        Failure::Unreachable(format!("cannot reach {}: {why}", self.base))
    }
}

impl Response {
    /// Returns the service's time from the `Date` header.
    pub(crate) fn date(&self) -> Option<&str> {
        self.headers.get(DATE)?.to_str().ok()
    }

    /// Returns the cursor of the list's next page; `None` on the last page.
    pub(crate) fn next_page(&self) -> Option<&str> {
        self.headers.get("x-next-after")?.to_str().ok()
    }

    pub(crate) async fn bytes(self) -> Result<Bytes, Failure> {
        let whole = tokio::time::timeout(DEADLINE, self.body.collect()).await;
        let whole = whole.map_err(|_| truncated())?.map_err(|_| truncated())?;
        Ok(whole.to_bytes())
    }

    /// Returns the body as JSON; null if it is empty.
    pub(crate) async fn json(self) -> Result<Value, Failure> {
        let body = self.bytes().await?;
        if body.is_empty() {
            return Ok(Value::Null);
        }
        let foreign = |_| Failure::Failed("the server didn't return JSON: check the service address".to_owned());
        serde_json::from_slice(&body).map_err(foreign)
    }

    pub(crate) async fn next_chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            let next = tokio::time::timeout(DEADLINE, self.body.frame()).await.map_err(|_| truncated())?;
            let Some(frame) = next else { return Ok(None) };
            if let Ok(part) = frame.map_err(|_| truncated())?.into_data() {
                return Ok(Some(part));
            }
        }
    }
}

fn retry_after(headers: &HeaderMap) -> Option<u64> {
    let asked: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(asked.min(MAX_RETRY_AFTER))
}

fn truncated() -> Failure {
    Failure::Unreachable("the response ended early: try again".to_owned())
}
