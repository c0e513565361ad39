//! Health of a drain: the lines it sent in recent hours, and how many were stored (docs/api/identity.md#health-of-a-drain).

use crate::ids::DrainId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub const HEALTH_HOURS: i64 = 48;
pub const HEALTH_BAD_LINES: i64 = 10;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DrainHealth {
    pub drain_id: DrainId,
    /// RFC 3339; when the last batch was accepted, or null if none was.
    #[serde(default, with = "crate::instant::optional")]
    pub last_batch_at: Option<DateTime<Utc>>,
    #[serde(flatten)]
    pub figures: DrainFigures,
    /// The newest unreadable lines, truncated and without addresses.
    pub bad_lines: Vec<BadLine>,
    /// Every hour, oldest first.
    pub hours: Vec<DrainHour>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainFigures {
    pub lines: u64,
    pub kept: u64,
    /// Requests by people, which are only counted.
    pub people: u64,
    /// Unreadable lines.
    pub bad: u64,
    /// Lines dropped for other reasons.
    pub dropped: Vec<DroppedLines>,
    /// Requests by bots that returned no content.
    pub refused: u64,
    pub bytes: u64,
    /// Maximum time from a request to the acceptance of its line; null without lines.
    pub lag_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedLines {
    pub reason: String,
    pub count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadLine {
    pub reason: String,
    pub excerpt: String,
    #[serde(with = "crate::instant")]
    pub seen_at: DateTime<Utc>,
}

/// One hour. Without lines, the figures are unknown and therefore absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainHour {
    /// RFC 3339: start of the hour.
    #[serde(with = "crate::instant")]
    pub hour: DateTime<Utc>,
    pub coverage: bool,
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub figures: Option<DrainFigures>,
}
