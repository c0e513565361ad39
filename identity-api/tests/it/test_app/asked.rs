//! What a caller shows, and what comes back.

use reqwest::RequestBuilder;
use serde_json::Value;

/// A status and a body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

#[derive(Clone, Copy)]
pub(crate) enum Shows<'a> {
    Nothing,
    Key(&'a str),
    Session(&'a str),
    Both(&'a str, &'a str),
}

/// Sends; the request id, which differs from request to request, is taken out of a problem.
pub(crate) async fn answer(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let mut body: Value = response.json().await.unwrap_or_default();
    if status >= 400
        && let Some(problem) = body.as_object_mut()
    {
        problem.remove("request_id");
    }
    Answer { status, body }
}

impl Answer {
    /// A text member of the body.
    pub(crate) fn text(&self, member: &str) -> &str {
        self.body[member].as_str().unwrap_or_else(|| panic!("{member} of {}", self.body))
    }

    /// The status and the code of a refusal.
    pub(crate) fn refusal(&self) -> (u16, &str) {
        (self.status, self.body["code"].as_str().unwrap_or_default())
    }
}
