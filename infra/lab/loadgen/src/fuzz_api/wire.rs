//! One connection at a time, and any request that HTTP/1.1 can carry.
//!
//! Must not ask twice: an answer that is lost is a failure.

use super::shot::Shot;
use crate::client::{Endpoint, dial};
use anyhow::Context as _;
use flate2::read::GzDecoder;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::SendRequest;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Uri};
use serde_json::Value;
use std::io::Read;
use std::time::Duration;
use tokio::time::timeout;

/// Longer than this is a hang: a read refuses by itself after ten seconds.
const LONGEST_ANSWER: Duration = Duration::from_secs(15);
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) content_type: String,
    /// Whether it says when to come again.
    pub(super) says_when: bool,
    pub(super) headers: Vec<String>,
    pub(super) body: Bytes,
}

/// A connection that is opened when it is needed.
pub(super) struct Wire {
    place: Endpoint,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Wire {
    pub(super) fn new(place: Endpoint) -> Self {
        Self { place, sender: None }
    }

    pub(super) async fn get_json(&mut self, path: &str) -> anyhow::Result<Value> {
        let answer = self.exchange(&Shot::get(path)).await.context("not a request")?;
        let answer = answer.map_err(anyhow::Error::msg)?;
        anyhow::ensure!(answer.status == 200, "answered {}", answer.status);
        Ok(serde_json::from_slice(&answer.body)?)
    }

    /// The answer, or what went wrong; nothing when the shot cannot be written as a request.
    pub(super) async fn exchange(&mut self, shot: &Shot) -> Option<Result<HttpResponse, String>> {
        let request = self.request(shot)?;
        match timeout(LONGEST_ANSWER, self.open()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Some(Err(format!("cannot connect: {error}"))),
            Err(_) => return Some(Err("no connection within 15 s".to_owned())),
        }
        let sender = self.sender.as_mut()?;
        let outcome = timeout(LONGEST_ANSWER, answer(sender, request)).await;
        let outcome = outcome.unwrap_or_else(|_| Err("no answer within 15 s".to_owned()));
        // Whoever answers without having read a body closes, and the next request would race with that.
        if outcome.is_err() || shot.body.is_some() {
            self.sender = None;
        }
        Some(outcome)
    }

    fn request(&self, shot: &Shot) -> Option<Request<Full<Bytes>>> {
        let method = Method::from_bytes(shot.method.as_bytes()).ok()?;
        let mut request = Request::builder().method(method).uri(shot.target.parse::<Uri>().ok()?);
        if !shot.headers.iter().any(|(name, _)| name == "host") {
            request = request.header(HOST, self.place.address.to_string());
        }
        for (name, value) in &shot.headers {
            request = request.header(name.parse::<HeaderName>().ok()?, HeaderValue::from_bytes(value).ok()?);
        }
        request.body(Full::new(Bytes::from(shot.body.clone().unwrap_or_default()))).ok()
    }

    /// Makes sure that there is a connection.
    async fn open(&mut self) -> Result<(), &'static str> {
        if let Some(sender) = &mut self.sender
            && sender.ready().await.is_ok()
        {
            return Ok(());
        }
        self.sender = Some(dial(&self.place).await?);
        Ok(())
    }
}

async fn answer(sender: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> Result<HttpResponse, String> {
    let response = sender.send_request(request).await.map_err(|error| format!("no answer: {error}"))?;
    let (head, body) = response.into_parts();
    let content_type = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
    let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await.map_err(|error| format!("half an answer: {error}"))?;
    let body = decoded(head.headers.get(CONTENT_ENCODING), body.to_bytes())?;
    let says_when = head.headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse::<u64>().ok()).is_some();
    let headers = head.headers.keys().map(|name| name.as_str().to_owned()).collect();
    Ok(HttpResponse { status: head.status.as_u16(), content_type, says_when, headers, body })
}

/// The one encoding that is ever asked for undone.
fn decoded(encoding: Option<&HeaderValue>, body: Bytes) -> Result<Bytes, String> {
    let Some(encoding) = encoding else { return Ok(body) };
    if encoding != "gzip" {
        return Err(format!("nobody asked for {encoding:?}"));
    }
    let mut text = Vec::new();
    let read = GzDecoder::new(&*body).take(MAX_ANSWER_BYTES as u64).read_to_end(&mut text);
    read.map_err(|error| format!("half an answer: {error}"))?;
    Ok(text.into())
}
