//! Links by the demo's agent, each with a click token.

use crate::demo::DemoApp;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

/// A session of the demo's agent and a click token for it.
pub(super) struct TokenSession {
    pub(super) session: String,
    token: String,
}

impl TokenSession {
    pub(super) async fn create(demo: &DemoApp, agent_id: Option<&str>) -> Self {
        let agent = demo.env("AGENT_KEY");
        let session = demo.start_session(agent, &json!({"agent_id": agent_id})).await;
        let token = demo.create_token(agent, &session, "https://www.example.com/link").await;
        Self { session, token }
    }

    pub(super) async fn end(&self, demo: &DemoApp, outcome: Value) {
        let end = json!({"session_id": self.session, "outcome": outcome});
        let _ = demo.post(demo.env("AGENT_KEY"), "/sessions/end", &end).await.expect(200);
    }

    /// Returns a click event with the token.
    pub(super) fn click(&self, at: DateTime<Utc>, url: &str) -> Value {
        json!({"type": "content_engaged", "id": uuid::Uuid::new_v4(), "timestamp": at.to_rfc3339(), "content_url": url, "ctx_token": self.token,
            "data": {"engagement_type": "link_click", "order": "order-of-the-network"}})
    }
}
