//! Who fetched an owner's content, and of which hours anybody tells (docs/api/reads.md#get-content-ownerscrawlers).

use crate::coverage::Coverage;
use crate::ids::OrgId;
use crate::pages::Page;
use serde::{Deserialize, Serialize};
use std::ops::Not;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Crawlers {
    /// Whose telemetry it is; the grantor's id on a delegated read.
    pub organization_id: OrgId,
    pub domains: Vec<String>,
    pub period_start: Option<String>,
    pub period_end: Option<String>,
    /// What each operator fetched, and what its agents say became of it; most retrievals first.
    pub operators: Vec<OperatorCounts>,
    /// The same of agents whose name is no bot's, and of events without an agent.
    pub unattributed: ClaimCounts,
    /// Requests of bots that returned no content: events and log lines; most first.
    pub refused: Vec<RefusedCount>,
    pub coverage: Coverage,
    /// Most retrievals first.
    #[serde(flatten)]
    pub page: Page<CrawlerItem>,
}

/// What one operator's bots fetched, and what its agents say became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorCounts {
    pub operator: String,
    /// Distinct retrievals that a server saw: those of its bots.
    pub retrievals: u64,
    #[serde(flatten)]
    pub claims: ClaimCounts,
}

/// What agents say became of content, and the clicks that came back from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimCounts {
    /// Distinct retrievals that an agent claims, whether or not a server saw them.
    pub claimed: u64,
    pub cited: u64,
    pub presented: u64,
    pub clicks: u64,
}

/// The retrievals of one bot, from addresses of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrawlerItem {
    /// Whose bot it is, by the table of bots.
    pub operator: String,
    /// Its name; `other` where only the CDN says that it is one.
    pub bot: String,
    /// `training`, `search` or `user`.
    pub purpose: String,
    /// Whether it asked from an address of its operator; null where nothing is published, or nobody looked.
    pub verified: Option<bool>,
    pub retrievals: u64,
    /// Bytes that were sent, as the server says.
    pub bytes: u64,
    /// Adds up to `retrievals`; by status, of which 0 is not known.
    pub statuses: Vec<StatusCount>,
    /// Retrievals that an agent of another organisation claims too.
    pub corroborated: u64,
    /// The same as a share of `retrievals`.
    pub corroborated_share: f64,
    /// Requests of this bot that returned no content, whatever their address.
    pub refused: u64,
    /// Clicks that came back from the operator's agents; the same in each item of the operator.
    pub operator_clicks: u64,
    /// Retrievals of all the operator's bots for one such click; null without clicks.
    pub retrievals_per_click: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCount {
    /// HTTP status; 0 where it is not known.
    pub status: u16,
    pub count: u64,
}

/// Requests of one bot that returned no content, with one status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCount {
    pub operator: String,
    pub bot: String,
    /// HTTP status: 304 is a revalidation, every other one a failed fetch; 0 if the request wasn't answered (status `none`).
    pub status: u16,
    pub count: u64,
    /// Whether it is the sum of what is not listed; then it has no names.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
}

/// `GET /content-owners/coverage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageRead {
    /// Whose telemetry it is; the grantor's id on a delegated read.
    pub organization_id: OrgId,
    pub domains: Vec<String>,
    pub period_start: Option<String>,
    pub period_end: Option<String>,
    pub coverage: Coverage,
    /// The owner's drains with log lines that carry a correlation id.
    pub drains: Vec<DrainLines>,
}

/// What became of one drain's log lines that carry a correlation id (docs/api/reads.md#get-content-ownerscoverage).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainLines {
    pub drain_id: String,
    pub lines_with_id: u64,
    /// Lines whose event other observers report, too.
    pub joined: u64,
    /// Lines that are events of their own, because an earlier line of the drain has their id for the same URL.
    pub reused_ids: u64,
}
