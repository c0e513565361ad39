//! How a drain fares: what it has sent in the last hours, and what became of it (docs/api/identity.md#health-of-a-drain).

use crate::ids::DrainId;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub const HEALTH_HOURS: i64 = 48;
pub const HEALTH_BAD_LINES: i64 = 10;

/// The last [`HEALTH_HOURS`] hours of a drain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DrainHealth {
    pub drain_id: DrainId,
    /// RFC 3339: when the last batch was accepted, however long ago; null before the first.
    #[serde(default, with = "crate::instant::optional")]
    pub last_batch_at: Option<DateTime<Utc>>,
    #[serde(flatten)]
    pub figures: DrainFigures,
    /// The newest bad lines, without addresses and cut.
    pub bad_lines: Vec<BadLine>,
    /// Every hour, oldest first.
    pub hours: Vec<DrainHour>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainFigures {
    pub lines: u64,
    pub kept: u64,
    /// Of people: dropped, and nothing of them is known.
    pub people: u64,
    /// Not to be read.
    pub bad: u64,
    /// Dropped for another reason.
    pub dropped: Vec<DroppedLines>,
    /// Requests of bots that returned no content.
    pub refused: u64,
    pub bytes: u64,
    /// The longest time from a request to the acceptance of its line; null without a line.
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

/// One hour. Of an hour without a line nothing is known: it has no figures, not even zeroes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainHour {
    /// RFC 3339: when it begins.
    #[serde(with = "crate::instant")]
    pub hour: DateTime<Utc>,
    pub coverage: bool,
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub figures: Option<DrainFigures>,
}
