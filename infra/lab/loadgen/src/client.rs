//! One kept-alive HTTP/1.1 connection, with a deadline on every exchange.
//!
//! Must tell what never left from what may have arrived: the oracle depends on it. Must not retry.

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Largest answer that is read.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone, Debug)]
pub struct Endpoint {
    /// What connections are opened to.
    pub address: SocketAddr,
    host: HeaderValue,
}

impl Endpoint {
    /// Reads `http://host[:port]`.
    pub fn parse(base: &str) -> anyhow::Result<Self> {
        let wrong = || format!("{base}: not an address of the form http://host:port");
        let url = url::Url::parse(base).ok().filter(|url| url.scheme() == "http").with_context(wrong)?;
        let authority = format!("{}:{}", url.host_str().with_context(wrong)?, url.port_or_known_default().with_context(wrong)?);
        let address = authority.to_socket_addrs().ok().and_then(|mut found| found.next());
        let address = address.with_context(|| format!("{base}: the host has no address"))?;
        Ok(Self { address, host: HeaderValue::from_str(&authority).with_context(wrong)? })
    }
}

/// What came of an exchange.
#[derive(Debug)]
pub enum Exchange {
    Answered(HttpResponse),
    /// It failed before anything was sent.
    NeverSent(&'static str),
    /// It failed after something may have arrived.
    Lost(&'static str),
}

/// An answer, read whole.
#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    /// Whether it says when to try again.
    pub has_retry_after: bool,
    /// How long the whole list is, of a list that comes line by line.
    pub total: Option<u64>,
    pub body: Bytes,
}

/// A connection that is opened when it is first used, and again after it broke.
#[derive(Debug)]
pub struct Connection {
    place: Endpoint,
    deadline: Duration,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// A connection to `place` whose exchanges take at most `deadline`.
    pub fn new(place: Endpoint, deadline: Duration) -> Self {
        Self { place, deadline, sender: None }
    }

    /// `POST` of JSON.
    pub async fn post(&mut self, path: &'static str, key: &HeaderValue, body: Vec<u8>) -> Exchange {
        let request = self.request(Method::POST, path, key);
        self.exchange(request.header(CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body)))).await
    }

    /// [`Self::post`] under an id of the caller's own.
    pub async fn post_as(&mut self, path: &'static str, key: &HeaderValue, id: &str, body: Vec<u8>) -> Exchange {
        let request = self.request(Method::POST, path, key).header("x-request-id", id);
        self.exchange(request.header(CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body)))).await
    }

    /// `POST` of a log that is compressed with gzip, under an id of the caller's own.
    pub async fn post_gzip(&mut self, path: &'static str, key: &HeaderValue, id: &str, body: Bytes) -> Exchange {
        let request = self.request(Method::POST, path, key).header("x-request-id", id).header(CONTENT_ENCODING, "gzip");
        self.exchange(request.body(Full::new(body))).await
    }

    pub async fn get(&mut self, path: &str, key: &HeaderValue) -> Exchange {
        let request = self.request(Method::GET, path, key);
        self.exchange(request.body(Full::default())).await
    }

    /// `GET` of one JSON object a line.
    pub async fn get_lines(&mut self, path: &str, key: &HeaderValue) -> Exchange {
        let request = self.request(Method::GET, path, key).header(ACCEPT, "application/x-ndjson");
        self.exchange(request.body(Full::default())).await
    }

    fn request(&self, method: Method, path: &str, key: &HeaderValue) -> hyper::http::request::Builder {
        Request::builder().method(method).uri(path).header(HOST, &self.place.host).header("x-api-key", key)
    }

    async fn exchange(&mut self, request: hyper::http::Result<Request<Full<Bytes>>>) -> Exchange {
        let Ok(request) = request else { return Exchange::NeverSent("not a request") };
        if let Err(why) = self.open().await {
            return Exchange::NeverSent(why);
        }
        let Some(sender) = &mut self.sender else { return Exchange::NeverSent("no connection") };
        let outcome = timeout(self.deadline, answer(sender, request)).await.unwrap_or(Exchange::Lost("timeout"));
        if !matches!(outcome, Exchange::Answered(_)) {
            self.sender = None;
        }
        outcome
    }

    /// Makes sure that there is a connection that the other side has not closed.
    async fn open(&mut self) -> Result<(), &'static str> {
        if let Some(sender) = &mut self.sender
            && sender.ready().await.is_ok()
        {
            return Ok(());
        }
        let dialled = timeout(self.deadline, dial(&self.place));
        self.sender = Some(dialled.await.map_err(|_| "connect timeout")??);
        Ok(())
    }
}

/// A connection of HTTP/1.1.
async fn dial(place: &Endpoint) -> Result<SendRequest<Full<Bytes>>, &'static str> {
    let stream = TcpStream::connect(place.address).await.map_err(|_| "connection refused")?;
    let _ = stream.set_nodelay(true);
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| "connection broken")?;
    // its errors reach the exchange that they break
    tokio::spawn(connection);
    Ok(sender)
}

async fn answer(sender: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> Exchange {
    let response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(error) if error.is_canceled() => return Exchange::NeverSent("connection was closed"),
        Err(error) if error.is_incomplete_message() => return Exchange::Lost("closed without an answer"),
        Err(_) => return Exchange::Lost("connection reset"),
    };
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
    match body {
        Ok(body) => Exchange::Answered(HttpResponse {
            status: head.status.as_u16(),
            has_retry_after: head.headers.contains_key(RETRY_AFTER),
            total: head.headers.get("x-total-count").and_then(|total| total.to_str().ok()?.parse().ok()),
            body: body.to_bytes(),
        }),
        Err(_) => Exchange::Lost("half an answer"),
    }
}
