//! Sends the demo data and retries temporary failures.

use crate::all::demo_env::DemoEnv;
use anyhow::{Context, anyhow};
use backon::{ExponentialBuilder, Retryable};
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Client, StatusCode};
use serde_json::Value;
use std::time::Duration;

const ATTEMPT: Duration = Duration::from_secs(30);
const RETRIES: usize = 20;
/// First and longest planned pause between attempts. `Retry-After` can only lengthen a pause.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Maximum `Retry-After` to wait for. A longer one is an error.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(5);

/// Sends requests with the keys of the demo organizations.
pub(super) struct Requests<'a> {
    client: Client,
    demo: &'a DemoEnv,
}

#[derive(Debug)]
struct Failure {
    error: anyhow::Error,
    /// Whether the same request may succeed later.
    is_temporary: bool,
    retry_after: Option<Duration>,
}

impl<'a> Requests<'a> {
    pub(super) fn new(demo: &'a DemoEnv) -> anyhow::Result<Self> {
        let client = Client::builder().no_proxy().timeout(ATTEMPT).build().context("cannot create an HTTP client")?;
        Ok(Self { client, demo })
    }

    /// Posts a JSON body with the given key of `demo.env`. Retries failed connections, 429 and 503 at most 20 times; fails if
    /// `Retry-After` is longer than 5 minutes.
    pub(super) async fn post(&self, path: &str, key: &str, body: &Value) -> anyhow::Result<Value> {
        let attempt = || self.attempt(path, key, body);
        let posted = attempt.retry(pauses()).when(|failure| failure.is_temporary).adjust(pause).await;
        posted.map_err(|failure| failure.error)
    }

    async fn attempt(&self, path: &str, key: &str, body: &Value) -> Result<Value, Failure> {
        let url = format!("{}{path}", self.demo.get("BASE_URL"));
        let request = self.client.post(url).header("x-api-key", self.demo.get(key)).json(body);
        let unanswered = |error: reqwest::Error| Failure {
            error: anyhow::Error::from(error).context(format!("demo data: POST {path} failed")),
            is_temporary: true,
            retry_after: None,
        };
        let response = request.send().await.map_err(unanswered)?;
        let (status, retry_after) = (response.status(), retry_after(response.headers()));
        let text = response.text().await.map_err(unanswered)?;
        let failure = |error, is_temporary| Failure { error, is_temporary, retry_after };
        if status != StatusCode::CREATED {
            let error = anyhow!("demo data: POST {path} returned {status}: {text}");
            if let Some(pause) = retry_after.filter(|pause| *pause > LONGEST_RETRY_AFTER) {
                let (pause, limit) = (pause.as_secs(), LONGEST_RETRY_AFTER.as_secs());
                return Err(failure(error.context(format!("Retry-After is {pause} s, more than the limit of {limit} s")), false));
            }
            let is_temporary = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
            return Err(failure(error, is_temporary));
        }
        let parsed = serde_json::from_str(&text).with_context(|| format!("demo data: POST {path} returned invalid JSON"));
        parsed.map_err(|error| failure(error, false))
    }
}

fn pauses() -> ExponentialBuilder {
    ExponentialBuilder::default().with_min_delay(FIRST_PAUSE).with_max_delay(LONGEST_PAUSE).with_max_times(RETRIES)
}

/// Returns the pause before the next attempt: the longer of `Retry-After` and the planned pause, or `None` after the last attempt.
fn pause(failure: &Failure, planned: Option<Duration>) -> Option<Duration> {
    planned.map(|planned| failure.retry_after.unwrap_or_default().max(planned))
}

/// Parses `Retry-After` in whole seconds, the only form the service sends.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use backon::BackoffBuilder;
    use serde_json::json;
    use std::time::Instant;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::JoinHandle;

    /// Closes the connection instead of responding.
    const CLOSED: &str = "";
    const UNAVAILABLE: &str = "503 Service Unavailable\r\nretry-after: 1\r\n";
    const TOO_MANY: &str = "429 Too Many Requests\r\nretry-after: 0\r\n";
    const CREATED: &str = "201 Created\r\n";

    /// Starts a server with these responses, one per connection. Returns the matching environment, and each request with its time.
    async fn serve(responses: &[&'static str]) -> (DemoEnv, JoinHandle<Vec<(Instant, String)>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut demo = DemoEnv::default();
        demo.set("BASE_URL", format!("http://{}", listener.local_addr().unwrap()));
        demo.set("OWNER_KEY", "svc_pub_demo");
        let responses = responses.to_vec();
        let served = tokio::spawn(async move {
            let mut requests = Vec::new();
            for response in responses {
                let (mut connection, _) = listener.accept().await.unwrap();
                requests.push((Instant::now(), read(&mut connection).await));
                if response != CLOSED {
                    let body = r#"{"status":"said"}"#;
                    let text = format!("HTTP/1.1 {response}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
                    connection.write_all(text.as_bytes()).await.unwrap();
                }
            }
            requests
        });
        (demo, served)
    }

    /// Reads one request and returns its first line and body.
    async fn read(connection: &mut TcpStream) -> String {
        let mut text = String::new();
        loop {
            let mut part = [0; 4096];
            let length = connection.read(&mut part).await.unwrap();
            text.push_str(std::str::from_utf8(&part[..length]).unwrap());
            if let Some((head, body)) = text.split_once("\r\n\r\n")
                && let Some((_, rest)) = head.split_once("content-length: ")
                && rest.lines().next().and_then(|length| length.parse().ok()) == Some(body.len())
            {
                return format!("{} {body}", head.lines().next().unwrap());
            }
        }
    }

    #[tokio::test]
    async fn retries_503_and_429_and_closed_connections() {
        let (demo, served) = serve(&[UNAVAILABLE, TOO_MANY, CLOSED, CREATED]).await;
        let posted = Requests::new(&demo).unwrap().post("/events", "OWNER_KEY", &json!({"events": []})).await;
        assert_eq!(posted.unwrap(), json!({"status": "said"}));
        let requests = served.await.unwrap();
        assert!(requests.iter().all(|(_, request)| request == "POST /events HTTP/1.1 {\"events\":[]}"), "{requests:?}");
        // The first planned pause is shorter than the Retry-After of the first response.
        assert!(requests[1].0 - requests[0].0 >= Duration::from_secs(1), "Retry-After is ignored: {requests:?}");
    }

    #[tokio::test]
    async fn other_statuses_fail_at_once_with_the_body() {
        for status in ["422 Unprocessable Entity\r\n", "401 Unauthorized\r\n", "500 Internal Server Error\r\n", "200 OK\r\n"] {
            let (demo, served) = serve(&[status]).await;
            let failed = Requests::new(&demo).unwrap().post("/events", "OWNER_KEY", &json!({})).await.unwrap_err().to_string();
            assert!(failed.contains(&status[..3]) && failed.contains(r#"{"status":"said"}"#), "{failed}");
            assert_eq!(served.await.unwrap().len(), 1);
        }
    }

    #[tokio::test]
    async fn gives_up_if_retry_after_is_too_long() {
        let (demo, served) = serve(&["503 Service Unavailable\r\nretry-after: 301\r\n"]).await;
        let failed = Requests::new(&demo).unwrap().post("/events", "OWNER_KEY", &json!({})).await.unwrap_err();
        let failed = format!("{failed:#}");
        assert!(
            failed.contains("Retry-After is 301 s, more than the limit of 300 s: demo data: POST /events returned 503"),
            "{failed}"
        );
        assert_eq!(served.await.unwrap().len(), 1);
    }

    #[test]
    fn gives_up_after_the_last_retry() {
        assert_eq!(pauses().build().count(), RETRIES);
        let failure = |seconds: Option<u64>| Failure {
            error: anyhow!("busy"),
            is_temporary: true,
            retry_after: seconds.map(Duration::from_secs),
        };
        assert_eq!(pause(&failure(Some(1)), None), None);
        assert_eq!(pause(&failure(Some(7)), Some(FIRST_PAUSE)), Some(Duration::from_secs(7)));
        assert_eq!(pause(&failure(Some(1)), Some(Duration::from_secs(8))), Some(Duration::from_secs(8)));
        assert_eq!(pause(&failure(Some(300)), Some(LONGEST_PAUSE)), Some(Duration::from_mins(5)));
        assert_eq!(pause(&failure(None), Some(FIRST_PAUSE)), Some(FIRST_PAUSE));
    }
}
