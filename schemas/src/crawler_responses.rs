//! Responses about bots that fetched an owner's content, and about the hours with server data
//! (docs/api/reads.md#get-content-ownerscrawlers).

use crate::coverage::Coverage;
use crate::ids::OrgId;
use crate::paged_responses::Page;
use serde::{Deserialize, Serialize};
use std::ops::Not;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Crawlers {
    /// The owner of the data; the grantor's id for a delegated read.
    pub organization_id: OrgId,
    pub domains: Vec<String>,
    pub period_start: Option<String>,
    pub period_end: Option<String>,
    /// Per operator: fetches by its bots, and claims by its agents; most fetches first.
    pub operators: Vec<OperatorCounts>,
    /// Agents with claims, citations, presentations or visits, in descending order of their number.
    pub agents: Vec<AgentClaims>,
    /// Fetches without a known bot, claims of agents whose name is not a known bot, and events without an agent.
    pub unattributed: Unattributed,
    /// Requests that returned no content (events and log lines), most first; without names if the bot is unknown.
    pub refused: Vec<RefusedCount>,
    pub coverage: Coverage,
    /// Most fetches first.
    #[serde(flatten)]
    pub page: Page<CrawlerItem>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorCounts {
    pub operator: String,
    /// Distinct fetches by its bots that a server saw.
    pub retrievals: u64,
    #[serde(flatten)]
    pub claims: ClaimCounts,
}

/// Claims by agents that belong to no operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unattributed {
    /// Fetches without a known bot.
    pub retrievals: u64,
    #[serde(flatten)]
    pub claims: ClaimCounts,
}

/// What one agent reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentClaims {
    /// The operator of the bot whose name the agent's name contains; empty if there is none.
    pub operator: String,
    /// The agent's organization; empty for events without an agent.
    pub platform_id: String,
    /// The name of that organization.
    pub platform_name: String,
    /// The platform's name for the agent; empty if missing.
    pub agent_id: String,
    #[serde(flatten)]
    pub claims: ClaimCounts,
    /// Whether this is the sum of unlisted agents. Then it has no names.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
}

/// Claims of agents about content, and clicks that came from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimCounts {
    /// Distinct fetches that an agent claims, whether or not a server saw them.
    pub claimed: u64,
    /// Claims that another organization's server reports too.
    pub confirmed: u64,
    pub cited: u64,
    pub presented: u64,
    pub clicks: u64,
}

impl ClaimCounts {
    pub fn add(&mut self, other: Self) {
        self.claimed += other.claimed;
        self.confirmed += other.confirmed;
        self.cited += other.cited;
        self.presented += other.presented;
        self.clicks += other.clicks;
    }

    pub fn total(&self) -> u64 {
        self.claimed + self.cited + self.presented + self.clicks
    }
}

/// Fetches of one bot, split by `verified`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrawlerItem {
    pub operator: String,
    /// Name of the bot; `other` if only the CDN identifies it as one.
    pub bot: String,
    /// `training`, `search` or `user`.
    pub purpose: String,
    /// Whether the requests came from an address of the operator; null if that is unknown.
    pub verified: Option<bool>,
    pub retrievals: u64,
    /// Response bytes, as the server reports them.
    pub bytes: u64,
    /// Fetches by status, where 0 is unknown. They add up to `retrievals`.
    pub statuses: Vec<StatusCount>,
    /// Fetches that another organization's agent claims too.
    pub corroborated: u64,
    pub corroborated_share: f64,
    /// UTC, to the millisecond.
    pub last_fetch: String,
    /// Requests of this bot that returned no content, from any address.
    pub refused: u64,
    /// Clicks from the operator's agents; the same in each item of the operator.
    pub operator_clicks: u64,
    /// Fetches of all bots of the operator per click; null without clicks.
    pub retrievals_per_click: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCount {
    /// HTTP status; 0 if unknown.
    pub status: u16,
    pub count: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCount {
    pub operator: String,
    pub bot: String,
    /// HTTP status: 304 is a revalidation, others are failed fetches; 0 if the request wasn't answered (status `none`).
    pub status: u16,
    pub count: u64,
    /// Whether this is the sum of unlisted rows. Then it has no names.
    #[serde(default, skip_serializing_if = "Not::not")]
    pub other: bool,
}

/// `GET /content-owners/coverage`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoverageRead {
    /// The owner of the data; the grantor's id for a delegated read.
    pub organization_id: OrgId,
    pub domains: Vec<String>,
    pub period_start: Option<String>,
    pub period_end: Option<String>,
    pub coverage: Coverage,
    /// The owner's drains with correlation IDs in their log lines.
    pub drains: Vec<DrainLines>,
}

/// Log lines of one drain that contain a correlation id (docs/api/reads.md#get-content-ownerscoverage).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainLines {
    pub drain_id: String,
    pub lines_with_id: u64,
    /// Lines that share an event with other observers' reports.
    pub joined: u64,
    /// Lines that are separate events, because an earlier line of the drain has the same id for the same URL.
    pub reused_ids: u64,
}
