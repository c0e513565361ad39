//! Links by the demo's agent, each with a click token.

use crate::demo::{Demo, send_request};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

/// A session of the demo's agent and a click token for it.
pub(super) struct TokenSession {
    pub(super) session: String,
    token: String,
}

async fn post(demo: &Demo, path: &str, body: Value) -> Value {
    let request = demo.client.post(demo.url(path)).header("x-api-key", demo.env("AGENT_KEY")).json(&body);
    let answer = send_request(request).await;
    assert!(matches!(answer.status, 200 | 201), "{path}: {}", answer.body);
    answer.body
}

impl TokenSession {
    pub(super) async fn create(demo: &Demo, agent_id: Option<&str>) -> Self {
        let started = post(demo, "/sessions/start", json!({"agent_id": agent_id})).await;
        let session = started["session_id"].as_str().unwrap().to_owned();
        let created = json!({"session_id": session, "content_url": "https://www.example.com/link"});
        let token = post(demo, "/click-tokens", created).await["token"].as_str().unwrap().to_owned();
        Self { session, token }
    }

    pub(super) async fn end(&self, demo: &Demo, outcome: Value) {
        post(demo, "/sessions/end", json!({"session_id": self.session, "outcome": outcome})).await;
    }

    /// Returns a click event with the token.
    pub(super) fn click(&self, at: DateTime<Utc>, url: &str) -> Value {
        json!({"type": "content_engaged", "id": uuid::Uuid::new_v4(), "timestamp": at.to_rfc3339(), "content_url": url, "ctx_token": self.token,
            "data": {"engagement_type": "link_click", "order": "order-of-the-network"}})
    }
}
