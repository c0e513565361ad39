//! Which part of the telemetry a read is about, as it is typed.

use crate::client::Parameters;
use crate::context::Context;
use crate::window::Moment;
use clap::Args;
use uuid::Uuid;

/// The window and whose figures.
#[derive(Args, Clone, Debug)]
pub(crate) struct Window {
    /// Begin of the window: 30m, 24h, 7d or 4w before now, a day, or an instant
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    since: Option<Moment>,
    /// End of the window, in the same forms; a day is included, an instant is not
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    until: Option<Moment>,
    /// One verified domain, or a host beneath one
    #[arg(long, value_name = "HOST")]
    domain: Option<String>,
    /// Content owner whose figures are read by its delegation
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

/// A part of a list.
#[derive(Args, Clone, Debug)]
pub(crate) struct Part {
    /// Most items, 1,000 at most
    #[arg(long, value_name = "NUMBER")]
    limit: Option<u32>,
    /// Items before the first one that is shown
    #[arg(long, value_name = "NUMBER")]
    offset: Option<u64>,
}

impl Part {
    pub(crate) fn parameters(&self) -> Parameters {
        let all =
            [("limit", self.limit.map(|limit| limit.to_string())), ("offset", self.offset.map(|offset| offset.to_string()))];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

/// A read of the whole window.
#[derive(Args, Clone, Debug)]
pub struct Whole {
    #[command(flatten)]
    pub(super) window: Window,
}

/// A read of a list.
#[derive(Args, Clone, Debug)]
pub struct List {
    #[command(flatten)]
    pub(super) window: Window,
    #[command(flatten)]
    pub(super) part: Part,
}

/// A read of a list that can be sorted.
#[derive(Args, Clone, Debug)]
pub struct Sorted {
    #[command(flatten)]
    window: Window,
    #[command(flatten)]
    part: Part,
    /// Member of an item by which the list is sorted, smallest first; largest first behind a -
    #[arg(long, value_name = "MEMBER", allow_hyphen_values = true)]
    sort: Option<String>,
}

impl Sorted {
    pub(super) fn parameters(&self, context: &Context) -> Parameters {
        let sort = self.sort.iter().map(|member| ("sort", member.clone()));
        [self.window.parameters(context), self.part.parameters(), sort.collect()].concat()
    }
}
