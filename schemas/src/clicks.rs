//! Click tokens: a bearer secret that an agent appends to an outbound link as the query parameter `ctx`.
//!
//! Must not be stored but as its hash (spec.md, "Click token"; decisions.md, "click token").

use crate::ids::SessionId;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

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
