//! Click tokens: a bearer secret that an agent appends to an outbound link as the query parameter `ctx`.
//!
//! Must not be stored but as its hash (spec.md, "Click token"; decisions.md, "click token").

use crate::ids::SessionId;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How long a token is valid.
pub const CLICK_TOKEN_LIFETIME: TimeDelta = TimeDelta::days(90);

/// The 201 of `POST /click-tokens`: the only place where the token is shown.
#[derive(Clone, Serialize, Deserialize)]
pub struct ClickToken {
    /// `ctx_` and 43 base62 characters.
    pub token: String,
    /// The caller's session it stands for.
    pub session_id: SessionId,
    /// The outbound link target, canonical.
    pub content_url: String,
    /// RFC 3339.
    pub expires_at: DateTime<Utc>,
}

/// What a looked-up token shows (spec.md, "Click manifest"). Never the session's id, in any spelling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClickManifest {
    /// Start of the session.
    pub started_at: DateTime<Utc>,
    /// The link that the token was made for; null when it holds the session's id.
    pub click_content_url: Option<String>,
    /// Grounded, cited and presented content, oldest first.
    pub events: Vec<ManifestEvent>,
    /// URLs of the grounded ones among `events`, each once, in their order.
    pub content_urls_grounded: Vec<String>,
    /// The same of the cited ones.
    pub content_urls_cited: Vec<String>,
    /// The same of the presented ones.
    pub content_urls_presented: Vec<String>,
}

/// One event of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ManifestEvent {
    /// `content_grounded`, `content_cited` or `content_presented`.
    #[serde(rename = "type")]
    pub event_type: String,
    /// When it happened.
    pub timestamp: DateTime<Utc>,
    /// What content it was about.
    pub content_url: String,
    /// Conversation turn reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<String>,
    /// Output reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_id: Option<String>,
    /// Of the reported members, those that the session's privacy level lets be shown.
    pub data: Map<String, Value>,
}
