//! Arguments of the read commands.

use crate::client::Parameters;
use crate::context::Context;
use crate::time_argument::Moment;
use clap::Args;
use uuid::Uuid;

/// The period and the owner of the figures.
#[derive(Args, Clone, Debug)]
pub(crate) struct Window {
    /// Start: an age (30m, 24h, 7d, 4w), a day or an RFC 3339 time
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    since: Option<Moment>,
    /// End, in the same formats; a day is included, a time is not
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    until: Option<Moment>,
    /// Only this verified domain or subdomain
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
    /// ID of a content owner that shares its data with you
    #[arg(long, value_name = "ORGANIZATION")]
    delegated_from: Option<Uuid>,
}

impl Window {
    pub(crate) fn parameters(&self, context: &Context) -> Parameters {
        let now = context.clock.now();
        let all = [
            ("since", self.since.as_ref().map(|moment| moment.at(now))),
            ("until", self.until.as_ref().map(|moment| moment.at(now))),
            ("domain", self.domain.clone()),
            ("delegated_from", self.delegated_from.map(|id| id.to_string())),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Filters")]
pub(crate) struct Filters {
    /// Only this agent; '' for events without an agent
    #[arg(long, value_name = "NAME")]
    agent_id: Option<String>,
    /// Only this agent or, without an agent, this bot; '' for events without both
    #[arg(long, value_name = "NAME")]
    agent_or_bot: Option<String>,
    /// Only this bot; '' for events without a bot
    #[arg(long, value_name = "NAME")]
    bot: Option<String>,
    /// Only events of this type
    #[arg(long, value_name = "TYPE")]
    event_type: Option<String>,
    /// Only events with this evidence: by agent, server, both or neither, or signed
    #[arg(long, value_parser = ["claimed", "observed", "corroborated", "signed", "unknown"])]
    evidence: Option<String>,
    /// Only bots of this company; '' for events without a bot
    #[arg(long, value_name = "COMPANY")]
    operator: Option<String>,
    /// Only fetches with this outcome
    #[arg(long, value_parser = ["fetch", "revalidation", "failed"])]
    outcome: Option<String>,
    /// Only this path (/blog/a), or paths with a prefix ('/blog/*') or text ('*news*')
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Only events of this organization's agents
    #[arg(long, value_name = "ORGANIZATION")]
    platform_id: Option<Uuid>,
    /// Only bots with this purpose
    #[arg(long, value_parser = ["training", "search", "user", "unknown"])]
    purpose: Option<String>,
    /// Only events with this result of the signature check
    #[arg(long, value_parser = ["valid", "invalid", "none"])]
    signature: Option<String>,
    /// Only events that this reporter reports
    #[arg(long, value_parser = ["agent", "edge", "origin", "index"])]
    source_role: Option<String>,
    /// Only this HTTP status code or class, such as 404 or 4xx
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only events with this result of the IP check
    #[arg(long, value_parser = ["true", "false", "unknown"])]
    verified: Option<String>,
}

impl Filters {
    pub(crate) fn parameters(&self) -> Parameters {
        let platform_id = self.platform_id.map(|id| id.to_string());
        let all = [
            ("agent_id", &self.agent_id),
            ("agent_or_bot", &self.agent_or_bot),
            ("bot", &self.bot),
            ("event_type", &self.event_type),
            ("evidence", &self.evidence),
            ("operator", &self.operator),
            ("outcome", &self.outcome),
            ("path", &self.path),
            ("platform_id", &platform_id),
            ("purpose", &self.purpose),
            ("signature", &self.signature),
            ("source_role", &self.source_role),
            ("status", &self.status),
            ("verified", &self.verified),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))).collect()
    }
}

/// A page of a list.
#[derive(Args, Clone, Debug)]
pub(crate) struct PageArgs {
    /// Maximum number of items, up to 1000
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u32>,
    /// Number of items to skip
    #[arg(long, value_name = "NUMBER")]
    offset: Option<u64>,
}

impl PageArgs {
    pub(crate) fn parameters(&self) -> Parameters {
        let all =
            [("limit", self.limit.map(|limit| limit.to_string())), ("offset", self.offset.map(|offset| offset.to_string()))];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// A read without pages.
#[derive(Args, Clone, Debug)]
pub struct UnpagedRead {
    #[command(flatten)]
    pub(super) window: Window,
}

/// A read of a list.
#[derive(Args, Clone, Debug)]
pub struct PagedRead {
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    part: PageArgs,
    #[command(flatten)]
    filters: Filters,
}

impl PagedRead {
    pub(super) fn parameters(&self, context: &Context) -> Parameters {
        [self.window.parameters(context), self.part.parameters(), self.filters.parameters()].concat()
    }
}

/// A read of a list that can be sorted.
#[derive(Args, Clone, Debug)]
pub struct SortedRead {
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    part: PageArgs,
    /// Response field to sort by; a leading - sorts in descending order
    #[arg(long, value_name = "MEMBER", allow_hyphen_values = true)]
    sort: Option<String>,
    #[command(flatten)]
    filters: Filters,
}

impl SortedRead {
    pub(super) fn parameters(&self, context: &Context) -> Parameters {
        let sort = self.sort.iter().map(|member| ("sort", member.clone()));
        [self.window.parameters(context), self.part.parameters(), sort.collect(), self.filters.parameters()].concat()
    }
}
