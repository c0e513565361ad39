//! Events over time, in hours or days, optionally split.

use super::Reads;
use super::list_limits::{ListLimits, standard_types};
use super::scope::Scope;
use super::series_cells::Cells;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::{EventFilter, Outcome};
use crate::parameters::period::Period;
use service_kit::http::ApiError;

const SERIES: &str = include_str!("../../sql/series.sql");
const SERIES_REQUESTS: &str = include_str!("../../sql/series_requests.sql");
const SERIES_ROLE: &str = include_str!("../../sql/series_role.sql");
const SERIES_AGENT: &str = include_str!("../../sql/series_agent.sql");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketLength {
    Hour,
    Day,
}

impl BucketLength {
    /// Returns the length of a bucket in milliseconds. Buckets are counted from 1970.
    pub(crate) fn ms(self) -> i64 {
        match self {
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
        }
    }
}

/// The split of an owner's series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// No split: one value without a name.
    Nothing,
    Type,
    /// An event counts for each role that reported it.
    Role,
    /// Platform and agent. An event counts for each agent that reported it.
    Agent,
    Platform,
    /// The agent that the event counts for in the funnel or, without one, the bot.
    AgentOrBot,
    /// The bot's operator. Empty if no report names a bot, like the next three.
    Operator,
    Bot,
    Purpose,
    /// `yes` if the operator publishes the request's address, `no` if not, or empty.
    Verified,
    /// HTTP status; empty if unknown.
    Status,
    /// A fetch's [`Outcome`]; empty for other events.
    Outcome,
    /// `claimed`, `observed` or `corroborated`; empty if neither an agent nor another organization's server reports it. An event
    /// with a valid signature also counts as `signed`.
    Evidence,
    /// `valid`, `invalid` or `none`.
    Signature,
}

impl Reads {
    /// Returns a series. Its buckets add up to the events in the summary, apart from `signed`. Log lines whose request returned no content
    /// are also counted if the series is split by outcome, or if it is filtered by the outcome revalidation or failed and is split by agent
    /// or bot, operator, bot, purpose, verification, status, evidence or signature, or not at all.
    pub(crate) async fn series(
        &self,
        seen: &Visibility,
        period: &Period,
        (by, split): (BucketLength, Split),
        filter: &EventFilter,
    ) -> Result<Cells, ApiError> {
        let scope = Scope::new(seen, period).filtered(filter);
        self.cells(scope.bind(statement(split, filter.outcome(), self.list_limits)).with("bucket_ms", by.ms())).await
    }
}

fn statement(split: Split, outcome: Option<Outcome>, most: ListLimits) -> Statement {
    let has_lines = match outcome {
        None => split == Split::Outcome,
        Some(outcome) => outcome != Outcome::Fetch && split != Split::Type,
    };
    let sql = if has_lines { SERIES_REQUESTS } else { SERIES };
    let by_value = |column: &str| Statement::new(sql).with("value", column);
    let statement = match split {
        Split::Nothing => by_value("nothing"),
        Split::Type => by_value("type"),
        Split::AgentOrBot => by_value("agent_or_bot"),
        Split::Operator => by_value("operator"),
        Split::Bot => by_value("bot"),
        Split::Purpose => by_value("purpose"),
        Split::Verified => by_value("verified_name"),
        Split::Status => by_value("status_name"),
        Split::Outcome => by_value("outcome"),
        Split::Evidence => by_value("evidence"),
        Split::Signature => by_value("signature_name"),
        Split::Role => Statement::new(SERIES_ROLE),
        Split::Agent => Statement::new(SERIES_AGENT).with("names", "agent_names"),
        Split::Platform => Statement::new(SERIES_AGENT).with("names", "no_names"),
    };
    let (known, own) = if split == Split::Type { (standard_types(), "is_owners") } else { (Vec::new(), "is_nobodys") };
    let is_invented = matches!(split, Split::Type | Split::Agent | Split::Platform | Split::AgentOrBot);
    statement.with("known", known).with("own", own).with("most", if is_invented { most.in_series } else { most.others_in_series })
}
