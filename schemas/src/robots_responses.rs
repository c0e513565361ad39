//! Responses about fetches that robots.txt disallows (docs/api/robots.md).

use crate::ids::OrgId;
use crate::paged_responses::Page;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RobotsCompliance {
    /// The owner of the data; the grantor's id for a delegated read.
    pub organization_id: OrgId,
    pub domains: Vec<String>,
    pub period_start: Option<String>,
    pub period_end: Option<String>,
    /// The files, by host.
    pub robots: Vec<RobotsFile>,
    pub fetches: RobotsFetches,
    /// Most fetches first.
    #[serde(flatten)]
    pub page: Page<DisallowedFetches>,
}

/// The robots.txt of a verified domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RobotsFile {
    pub host: String,
    pub state: RobotsState,
    /// Time of the latest check; `None` before the first one.
    pub checked_at: Option<String>,
    /// When the latest version within the period was first seen.
    pub changed_at: Option<String>,
}

named_enum! {
    /// Result of the latest check of a file.
    pub enum RobotsState {
        /// Not checked yet.
        Pending = "pending",
        Found = "found",
        /// The host has no file, so everything is allowed.
        Missing = "missing",
        /// The check failed, so the latest version applies.
        Unreachable = "unreachable",
    }
}

/// Fetches by known bots. `allowed`, `disallowed` and `unknown` add up to all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RobotsFetches {
    pub allowed: u64,
    pub disallowed: u64,
    /// The fetch was before the first known version of the host's file, or the host's file isn't checked.
    pub unknown: u64,
    /// The part of `disallowed` that no item lists.
    pub other_disallowed: u64,
}

/// Fetches of one path by one bot that a line of robots.txt disallows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DisallowedFetches {
    pub host: String,
    /// Path of the URL, without the query.
    pub path: String,
    pub bot: String,
    pub operator: String,
    /// `training`, `search`, `user` or empty.
    pub purpose: String,
    pub fetches: u64,
    pub last_fetch: String,
    /// The line, such as `Disallow: /private/`.
    pub rule: String,
    /// Its number in the file, starting at 1.
    pub rule_line: u64,
}
