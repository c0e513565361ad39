//! An HTTP/1.1 keep-alive connection with a time limit per exchange.
//!
//! It never retries, and distinguishes requests that weren't sent from those that may have arrived. The oracle depends on that.

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

const MAX_RESPONSE_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone, Debug)]
pub struct Endpoint {
    pub address: SocketAddr,
    host: HeaderValue,
}

impl Endpoint {
    /// Parses `http://host[:port]`.
    pub fn parse(base: &str) -> anyhow::Result<Self> {
        let wrong = || format!("{base}: not an address of the form http://host:port");
        let url = url::Url::parse(base).ok().filter(|url| url.scheme() == "http").with_context(wrong)?;
        let authority = format!("{}:{}", url.host_str().with_context(wrong)?, url.port_or_known_default().with_context(wrong)?);
        let address = authority.to_socket_addrs().ok().and_then(|mut found| found.next());
        let address = address.with_context(|| format!("{base}: the host has no address"))?;
        Ok(Self { address, host: HeaderValue::from_str(&authority).with_context(wrong)? })
    }
}

#[derive(Debug)]
pub enum Exchange {
    Responded(HttpResponse),
    /// Failed before anything was sent.
    NeverSent(&'static str),
    /// Failed after the request may have arrived.
    Lost(&'static str),
}

#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub has_retry_after: bool,
    /// Total number of items, for NDJSON lists.
    pub total: Option<u64>,
    pub body: Bytes,
}

/// A connection that is opened on first use and reopened after a failure.
#[derive(Debug)]
pub struct Connection {
    place: Endpoint,
    deadline: Duration,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// Creates a connection to `place` with the time limit `deadline` per exchange.
    pub fn new(place: Endpoint, deadline: Duration) -> Self {
        Self { place, deadline, sender: None }
    }

    pub async fn post(&mut self, path: &'static str, key: &HeaderValue, body: Vec<u8>) -> Exchange {
        let request = self.request(Method::POST, path, key);
        self.exchange(request.header(CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body)))).await
    }

    /// Like [`Self::post`], with the given request id.
    pub async fn post_as(&mut self, path: &'static str, key: &HeaderValue, id: &str, body: Vec<u8>) -> Exchange {
        let request = self.request(Method::POST, path, key).header("x-request-id", id);
        self.exchange(request.header(CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body)))).await
    }

    /// Like [`Self::post`] without a key, as a proxy forwards it for a client address.
    pub async fn post_from(&mut self, path: &'static str, client: &str, body: Vec<u8>) -> Exchange {
        let request = Request::builder().method(Method::POST).uri(path).header(HOST, &self.place.host);
        let request = request.header("x-forwarded-for", client).header(CONTENT_TYPE, "application/json");
        self.exchange(request.body(Full::new(Bytes::from(body)))).await
    }

    /// Sends a POST request with a gzip-compressed log and the given request id.
    pub async fn post_gzip(&mut self, path: &'static str, key: &HeaderValue, id: &str, body: Bytes) -> Exchange {
        let request = self.request(Method::POST, path, key).header("x-request-id", id).header(CONTENT_ENCODING, "gzip");
        self.exchange(request.body(Full::new(body))).await
    }

    pub async fn get(&mut self, path: &str, key: &HeaderValue) -> Exchange {
        let request = self.request(Method::GET, path, key);
        self.exchange(request.body(Full::default())).await
    }

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
        let outcome = timeout(self.deadline, send(sender, request)).await.unwrap_or(Exchange::Lost("timeout"));
        if !matches!(outcome, Exchange::Responded(_)) {
            self.sender = None;
        }
        outcome
    }

    async fn open(&mut self) -> Result<(), &'static str> {
        if let Some(sender) = &mut self.sender
            && sender.ready().await.is_ok()
        {
            return Ok(());
        }
        let dialled = timeout(self.deadline, connect(&self.place));
        self.sender = Some(dialled.await.map_err(|_| "connect timeout")??);
        Ok(())
    }
}

async fn connect(place: &Endpoint) -> Result<SendRequest<Full<Bytes>>, &'static str> {
    let stream = TcpStream::connect(place.address).await.map_err(|_| "connection refused")?;
    let _ = stream.set_nodelay(true);
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|_| "connection broken")?;
    // The interrupted exchange returns the connection's error.
    tokio::spawn(connection);
    Ok(sender)
}

async fn send(sender: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> Exchange {
    let response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(error) if error.is_canceled() => return Exchange::NeverSent("connection was closed"),
        Err(error) if error.is_incomplete_message() => return Exchange::Lost("closed without a response"),
        Err(_) => return Exchange::Lost("connection reset"),
    };
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_RESPONSE_BYTES).collect().await;
    match body {
        Ok(body) => Exchange::Responded(HttpResponse {
            status: head.status.as_u16(),
            has_retry_after: head.headers.contains_key(RETRY_AFTER),
            total: head.headers.get("x-total-count").and_then(|total| total.to_str().ok()?.parse().ok()),
            body: body.to_bytes(),
        }),
        Err(_) => Exchange::Lost("incomplete response"),
    }
}
