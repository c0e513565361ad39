//! Arguments of the read commands.

use crate::client::Parameters;
use crate::context::Context;
use crate::time_argument::Moment;
use clap::Args;
use uuid::Uuid;

/// The time window and the owner of the figures.
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
    pub(super) window: Window,
    #[command(flatten)]
    pub(super) part: PageArgs,
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
}

impl SortedRead {
    pub(super) fn parameters(&self, context: &Context) -> Parameters {
        let sort = self.sort.iter().map(|member| ("sort", member.clone()));
        [self.window.parameters(context), self.part.parameters(), sort.collect()].concat()
    }
}
