//! Retries requests until they are accepted, which is safe because repeats count once (docs/api/http.md#transport).

use crate::client::{Client, Parameters, RequestContent};
use crate::failure::Failure;
use crate::terminal::print_message;
use axum::body::Bytes;
use axum::http::Method;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::io::{self, Write};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The first pause; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Retries a request for up to `patience` while the service is unavailable or asks to wait.
pub(crate) async fn send_until_accepted(
    client: &Client,
    path: &str,
    parameters: &Parameters,
    content: &RequestContent,
    patience: Duration,
) -> Result<Value, Failure> {
    let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
    loop {
        let failure = match send(client, path, parameters, content).await {
            Err(failure) if failure.is_temporary() => failure,
            done => return done,
        };
        let asked = failure.retry_after().map(Duration::from_secs).unwrap_or(pause);
        if begun.elapsed() + asked > patience {
            return Err(failure);
        }
        print_message(&format!("{failure}\nTrying again in {} s.", asked.as_secs()));
        sleep(asked).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Sends the request once. A truncated response is an error.
async fn send(client: &Client, path: &str, parameters: &Parameters, content: &RequestContent) -> Result<Value, Failure> {
    client.send(Method::POST, path, parameters, content.clone()).await?.json().await
}

pub(crate) fn gzip(bytes: &[u8]) -> Result<Bytes, Failure> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let failed = |error: io::Error| Failure::Failed(error.to_string());
    encoder.write_all(bytes).map_err(failed)?;
    encoder.finish().map(Bytes::from).map_err(failed)
}
