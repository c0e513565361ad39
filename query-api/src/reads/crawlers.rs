//! Who fetched content: bots, what agents claim, and the hours of which a server reported anything.

use super::Reads;
use super::rows::following;
use super::scope::Scope;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::Outcome;
use crate::parameters::period::Period;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::BTreeMap;

const CRAWLERS: &str = include_str!("../../sql/crawlers.sql");
const HOURS: &str = include_str!("../../sql/hours.sql");
const DRAIN_LINES: &str = include_str!("../../sql/drain_lines.sql");

/// The fetches of one bot, from addresses of one kind.
pub(crate) struct BotRow {
    pub(crate) operator: String,
    pub(crate) bot: String,
    pub(crate) purpose: String,
    /// As stored: unknown, no, yes.
    pub(crate) verified: i8,
    pub(crate) retrievals: u64,
    pub(crate) bytes: u64,
    pub(crate) corroborated: u64,
    /// Status and fetches. They add up to `retrievals`.
    pub(crate) statuses: Vec<(u16, u64)>,
}

#[derive(Default)]
pub(crate) struct Requests {
    /// Those with the most fetches first.
    pub(crate) bots: Vec<BotRow>,
    /// Requests that returned no content, events and log lines, by operator, bot and status; 0 if the request wasn't answered.
    pub(crate) refused: BTreeMap<(String, String, u16), u64>,
}

impl Requests {
    /// Adds the row of a bot, which has no retrievals if none of its requests returned content.
    fn add(&mut self, row: StoredRow) {
        for (status, count) in &row.refused {
            let bot = (row.operator_name.clone(), row.bot_name.clone(), *status);
            *self.refused.entry(bot).or_default() += count;
        }
        if row.retrievals > 0 {
            self.bots.push(row.bot());
        }
    }
}

/// What one agent claims, and the clicks that came back from it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AgentCounts {
    pub(crate) claimed: u64,
    pub(crate) cited: u64,
    pub(crate) presented: u64,
    pub(crate) clicks: u64,
}

/// A bot, or an agent if the bot's name is empty.
#[derive(clickhouse::Row, Deserialize)]
struct StoredRow {
    operator_name: String,
    bot_name: String,
    purpose_name: String,
    verified_code: i8,
    /// Status and fetches; 0 is unknown.
    statuses: Vec<(u16, u64)>,
    /// Status and requests that returned no content; 0 if the request wasn't answered.
    refused: Vec<(u16, u64)>,
    retrievals: u64,
    bytes_sent: u64,
    corroborated: u64,
    agent_name: String,
    claimed: u64,
    cited: u64,
    presented: u64,
    clicks: u64,
}

impl StoredRow {
    fn bot(self) -> BotRow {
        let mut statuses = self.statuses;
        statuses.sort_unstable();
        BotRow {
            operator: self.operator_name,
            bot: self.bot_name,
            purpose: self.purpose_name,
            verified: self.verified_code,
            retrievals: self.retrievals,
            bytes: self.bytes_sent,
            corroborated: self.corroborated,
            statuses,
        }
    }
}

/// Hours as numbers since 1970.
#[derive(clickhouse::Row, Deserialize)]
struct HoursRow {
    hours: Vec<i64>,
}

/// Log lines of one drain with a correlation id.
#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct DrainLinesRow {
    pub(crate) drain_id: String,
    pub(crate) lines: u64,
    /// Lines whose event other observers report, too.
    pub(crate) joined: u64,
    /// Lines that are events of their own, because an earlier line has their id.
    pub(crate) reused: u64,
}

impl Reads {
    /// Returns what all bots asked for, and calls `agent` for each agent. Bots come from a table, so they are few; reporters name any
    /// number of agents.
    pub(crate) async fn crawlers(
        &self,
        seen: &Visibility,
        period: &Period,
        outcome: Option<Outcome>,
        mut agent: impl FnMut(&str, AgentCounts) + Send,
    ) -> Result<Requests, ApiError> {
        let scope = Scope::new(seen, period).narrowed(outcome);
        let (mut row, mut rest) = self.begun::<StoredRow>(scope.bind(Statement::new(CRAWLERS))).await?;
        let mut requests = Requests::default();
        while let Some(stored) = row {
            if stored.bot_name.is_empty() {
                let StoredRow { claimed, cited, presented, clicks, .. } = stored;
                agent(&stored.agent_name, AgentCounts { claimed, cited, presented, clicks });
            } else {
                requests.add(stored);
            }
            row = following(&mut rest).await?;
        }
        requests.bots.sort_by(|a, b| (b.retrievals, key(a)).cmp(&(a.retrievals, key(b))));
        Ok(requests)
    }

    /// Returns the hours in which a server reported an event, as numbers since 1970, in order. An event is in the hour of its own
    /// time; a later report by a server doesn't add an hour.
    pub(crate) async fn hours_seen(&self, seen: &Visibility, period: &Period) -> Result<Vec<i64>, ApiError> {
        let scope = Scope::new(seen, period);
        let hours: Vec<HoursRow> = self.all(scope.bind(Statement::new(HOURS))).await?;
        Ok(hours.into_iter().flat_map(|row| row.hours).collect())
    }

    /// Returns what became of the owner's log lines with a correlation id, by drain.
    pub(crate) async fn drain_lines(&self, seen: &Visibility, period: &Period) -> Result<Vec<DrainLinesRow>, ApiError> {
        let scope = Scope::new(seen, period);
        self.all(scope.bind(Statement::new(DRAIN_LINES)).with("owner", seen.organization_id().to_string())).await
    }
}

fn key(row: &BotRow) -> (&str, &str, &str, i8) {
    (&row.operator, &row.bot, &row.purpose, row.verified)
}
