//! Credentials and responses.

use reqwest::RequestBuilder;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Maximum time for retrying requests while the service is busy.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

#[derive(Clone, Copy)]
pub(crate) enum Credentials<'a> {
    Nothing,
    Key(&'a str),
    Session(&'a str),
    Both(&'a str, &'a str),
}

/// Sends a request. Removes the request id from errors, because it differs between requests.
pub(crate) async fn answer(request: RequestBuilder) -> TestResponse {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let mut body: Value = response.json().await.unwrap_or_default();
    if status >= 400
        && let Some(problem) = body.as_object_mut()
    {
        problem.remove("request_id");
    }
    TestResponse { status, body }
}

/// Retries a request that found no slot, as clients do, because on a busy machine many concurrent requests can time out.
pub(crate) async fn until_served<F: Future<Output = TestResponse>>(request: impl Fn() -> F) -> TestResponse {
    let begun = Instant::now();
    loop {
        let answer = request().await;
        if !answer.is_busy() {
            return answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

impl TestResponse {
    /// Returns whether the request found no slot or connection, rather than exceeding a rate, budget or limit.
    fn is_busy(&self) -> bool {
        let (status, code) = self.refusal();
        let detail = self.body["detail"].as_str().unwrap_or_default();
        (status, code) == (503, "unavailable")
            || ((status, code) == (429, "too_many_requests") && detail.starts_with("Too many of your requests are in progress."))
    }

    pub(crate) fn text(&self, member: &str) -> &str {
        self.body[member].as_str().unwrap_or_else(|| panic!("{member} of {}", self.body))
    }

    /// Returns the status and the error code.
    pub(crate) fn refusal(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }
}
