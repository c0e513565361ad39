//! ClickHouse statements with a query id, settings and a raw body. Everything else uses
//! [`clickhouse`](crate::stores::clickhouse).

pub use hyper::body::Bytes;

use crate::database_clients::{address, clickhouse_address};
use crate::egress::tls_trust;
use crate::settings::ClickHouseSettings;
use futures::{StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Method, Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::timeout;
use url::Url;

/// ClickHouse closes connections that are idle for three seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a stored exception text, in bytes.
const MAX_EXCEPTION_BYTES: usize = 2_000;
/// Multipart boundary, random enough not to occur in a body.
const BOUNDARY: &str = "content-telemetry-8c1f0c7a55e94f0f9f5e7f4c1d0a3b26";

type Body = UnsyncBoxBody<Bytes, Infallible>;

pub struct ClickHouseHttp {
    http: Client<HttpsConnector<HttpConnector>, Body>,
    url: Url,
    user: String,
    password: Option<String>,
    address: String,
}

pub struct Statement<'a> {
    /// The statement, followed by the data of an insert.
    pub body: Bytes,
    /// ClickHouse runs only one statement per query id at a time. Random if absent.
    pub query_id: Option<&'a str>,
    pub settings: &'a [(&'a str, &'a str)],
    pub table: Option<ExternalTable<'a>>,
    pub deadline: Duration,
}

/// A temporary table for one statement, in the RowBinary format.
pub struct ExternalTable<'a> {
    pub name: &'a str,
    pub structure: &'a str,
    pub rows: &'a [u8],
}

#[derive(Debug, thiserror::Error)]
pub enum StatementError {
    /// ClickHouse rejected the statement, or it failed. It no longer runs.
    #[error("{text}")]
    Exception {
        /// ClickHouse's exception code.
        code: u32,
        text: String,
    },
    /// No response: the statement may have run, not run, or still be running.
    #[error("no response from ClickHouse at {address}: {reason}")]
    NoResponse { address: String, reason: String },
}

impl StatementError {
    pub fn code(&self) -> Option<u32> {
        match self {
            Self::Exception { code, .. } => Some(*code),
            Self::NoResponse { .. } => None,
        }
    }
}

impl ClickHouseHttp {
    pub fn connect(settings: &ClickHouseSettings) -> anyhow::Result<Self> {
        let (mut url, user, password) = clickhouse_address(settings)?;
        let connector = if url.scheme() == "https" {
            tls_trust::client_config("TELEMETRY_CLICKHOUSE_CA", settings.clickhouse_ca.as_deref())?
        } else {
            tls_trust::trusting_no_authority()?
        };
        let connector = HttpsConnectorBuilder::new().with_tls_config(connector).https_or_http().enable_http1().build();
        url.query_pairs_mut().append_pair("database", &settings.clickhouse_database);
        Ok(Self {
            http: Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_TIMEOUT).build(connector),
            url,
            user,
            password,
            address: address(settings),
        })
    }

    /// Sends a statement and returns the result in the format that the statement names.
    ///
    /// # Errors
    ///
    /// Fails if ClickHouse doesn't respond or returns an exception, possibly after the first rows.
    pub async fn send(&self, statement: Statement<'_>) -> Result<Bytes, StatementError> {
        self.respond(statement, |body| Full::new(body).boxed_unsync()).await
    }

    /// Like [`send`](Self::send), but passes on each part of the result as it arrives. An error may follow after some parts.
    pub async fn send_and_receive(
        &self,
        statement: Statement<'_>,
        mut receive: impl FnMut(&[u8]) + Send,
    ) -> Result<(), StatementError> {
        let deadline = statement.deadline;
        let received = async {
            let response = self.begin(statement, |body| Full::new(body).boxed_unsync()).await?;
            let mut body = response.into_body();
            while let Some(frame) = body.frame().await {
                if let Some(part) = frame.map_err(|error| self.no_response(&Sources(&error)))?.data_ref() {
                    receive(part);
                }
            }
            Ok(())
        };
        match timeout(deadline, received).await {
            Ok(received) => received,
            Err(_) => Err(self.no_response(&format!("timed out after {} s", deadline.as_secs()))),
        }
    }

    /// Like [`send`](Self::send), but sends the second half of the body after `half_sent` completes.
    pub async fn send_in_halves(
        &self,
        statement: Statement<'_>,
        half_sent: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Bytes, StatementError> {
        let in_halves = |body: Bytes| {
            let (first, second) = (body.slice(..body.len() / 2), body.slice(body.len() / 2..));
            let second = stream::once(async move {
                half_sent.await;
                Ok(Frame::data(second))
            });
            BodyExt::boxed_unsync(StreamBody::new(stream::once(async { Ok(Frame::data(first)) }).chain(second)))
        };
        self.respond(statement, in_halves).await
    }

    async fn respond(&self, statement: Statement<'_>, body: impl FnOnce(Bytes) -> Body) -> Result<Bytes, StatementError> {
        let deadline = statement.deadline;
        match timeout(deadline, self.response(statement, body)).await {
            Ok(response) => response,
            Err(_) => Err(self.no_response(&format!("timed out after {} s", deadline.as_secs()))),
        }
    }

    async fn response(&self, statement: Statement<'_>, body: impl FnOnce(Bytes) -> Body) -> Result<Bytes, StatementError> {
        let body = self.begin(statement, body).await?.into_body().collect().await;
        Ok(body.map_err(|error| self.no_response(&Sources(&error)))?.to_bytes())
    }

    /// Sends a statement and returns the response once its headers indicate success.
    async fn begin(
        &self,
        statement: Statement<'_>,
        body: impl FnOnce(Bytes) -> Body,
    ) -> Result<Response<Incoming>, StatementError> {
        let request = self.request(statement, body).map_err(|error| self.no_response(&error))?;
        let response = self.http.request(request).await.map_err(|error| self.no_response(&Sources(&error)))?;
        let code = response.headers().get("x-clickhouse-exception-code").cloned();
        let is_success = response.status().is_success();
        if is_success && code.is_none() {
            return Ok(response);
        }
        let body = response.into_body().collect().await.map_err(|error| self.no_response(&Sources(&error)))?.to_bytes();
        let code = code.and_then(|code| code.to_str().ok()?.parse().ok()).unwrap_or(0);
        let text = String::from_utf8_lossy(&body[..body.len().min(MAX_EXCEPTION_BYTES)]).trim().to_owned();
        Err(StatementError::Exception { code, text })
    }

    fn request(&self, statement: Statement<'_>, sent: impl FnOnce(Bytes) -> Body) -> anyhow::Result<Request<Body>> {
        let Statement { body, query_id, settings, table, .. } = statement;
        let mut url = self.url.clone();
        let mut pairs = url.query_pairs_mut();
        pairs.extend_pairs(settings);
        pairs.extend_pairs(query_id.map(|id| ("query_id", id)));
        let mut request = Request::builder().method(Method::POST);
        let body = match table {
            None => body,
            Some(table) => {
                pairs.append_pair("query", std::str::from_utf8(&body)?);
                pairs.append_pair(&format!("{}_structure", table.name), table.structure);
                pairs.append_pair(&format!("{}_format", table.name), "RowBinary");
                request = request.header("content-type", format!("multipart/form-data; boundary={BOUNDARY}"));
                form(&table)
            }
        };
        drop(pairs);
        request = request.uri(url.as_str());
        if !self.user.is_empty() {
            request = request.header("x-clickhouse-user", &self.user);
        }
        if let Some(password) = &self.password {
            request = request.header("x-clickhouse-key", password);
        }
        Ok(request.body(sent(body))?)
    }

    fn no_response(&self, reason: &dyn std::fmt::Display) -> StatementError {
        StatementError::NoResponse { address: self.address.clone(), reason: format!("{reason:#}") }
    }
}

fn form(table: &ExternalTable<'_>) -> Bytes {
    let head = format!("--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{0}\"; filename=\"{0}\"\r\n\r\n", table.name);
    [head.as_bytes(), table.rows, format!("\r\n--{BOUNDARY}--\r\n").as_bytes()].concat().into()
}

/// Displays an error with its sources, because "client error (Connect)" alone doesn't name the cause.
struct Sources<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Sources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}
