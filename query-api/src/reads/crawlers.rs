//! Fetches by bot, agents' claims, and the hours with server reports.

use super::Reads;
use super::rows::following;
use super::scope::Scope;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::EventFilter;
use crate::parameters::period::Period;
use schemas::crawler_responses::ClaimCounts;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::BTreeMap;
use uuid::Uuid;

const CRAWLERS: &str = include_str!("../../sql/crawlers.sql");
const HOURS: &str = include_str!("../../sql/hours.sql");
const DRAIN_LINES: &str = include_str!("../../sql/drain_lines.sql");

#[derive(Default)]
pub(crate) struct Requests {
    /// Sorted by fetches, most first.
    pub(crate) bots: Vec<BotRow>,
    /// Fetches without a bot.
    pub(crate) unknown: u64,
    /// Requests without content by operator, bot and status, from events and log lines. Status 0 means that the request got no response.
    /// The names are empty without a bot.
    pub(crate) refused: BTreeMap<(String, String, u16), u64>,
}

impl Requests {
    /// Adds a bot's row. The bot may have no fetches, if all of its requests returned no content.
    fn add(&mut self, mut row: BotRow) {
        for (status, count) in &row.refused {
            let bot = (row.operator_name.clone(), row.bot_name.clone(), *status);
            *self.refused.entry(bot).or_default() += count;
        }
        if row.bot_name.is_empty() {
            self.unknown += row.retrievals;
        } else if row.retrievals > 0 {
            row.statuses.sort_unstable();
            self.bots.push(row);
        }
    }
}

/// The fetches of one bot from one kind of address, or what one agent claims.
#[derive(Default, clickhouse::Row, Deserialize)]
pub(crate) struct BotRow {
    /// 1 for an agent's claims.
    pub(crate) is_agent: u8,
    pub(crate) operator_name: String,
    pub(crate) bot_name: String,
    pub(crate) purpose_name: String,
    /// 0 unknown, 1 no, 2 yes.
    pub(crate) verified_code: i8,
    /// Fetches by status, which add up to `retrievals`. Status 0 is unknown.
    pub(crate) statuses: Vec<(u16, u64)>,
    /// Requests without content by status. Status 0 means that the request got no response.
    pub(crate) refused: Vec<(u16, u64)>,
    pub(crate) retrievals: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) corroborated: u64,
    /// Time of the last fetch in milliseconds since 1970.
    pub(crate) last_ms: i64,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) agent_platform: Uuid,
    pub(crate) agent_name: String,
    pub(crate) claimed: u64,
    pub(crate) confirmed: u64,
    pub(crate) cited: u64,
    pub(crate) presented: u64,
    pub(crate) clicks: u64,
}

#[derive(clickhouse::Row, Deserialize)]
struct HoursRow {
    hours: Vec<i64>,
}

/// A drain's log lines that have a correlation id.
#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct DrainLinesRow {
    pub(crate) drain_id: String,
    pub(crate) lines: u64,
    /// Lines whose event has other observers' reports.
    pub(crate) joined: u64,
    /// Lines that are separate events because an earlier line has the same id.
    pub(crate) reused: u64,
}

impl Reads {
    /// Returns all bots' requests, and calls `agent` for each agent. Bots come from a table, so there are few; the number of agents is
    /// unlimited.
    pub(crate) async fn crawlers(
        &self,
        seen: &Visibility,
        period: &Period,
        filter: &EventFilter,
        mut agent: impl FnMut(Uuid, String, ClaimCounts) + Send,
    ) -> Result<Requests, ApiError> {
        let scope = Scope::new(seen, period).filtered(filter);
        let (mut row, mut rest) = self.first_row::<BotRow>(scope.bind(Statement::new(CRAWLERS))).await?;
        let mut requests = Requests::default();
        while let Some(stored) = row {
            if stored.is_agent == 1 {
                let BotRow { claimed, confirmed, cited, presented, clicks, .. } = stored;
                agent(stored.agent_platform, stored.agent_name, ClaimCounts { claimed, confirmed, cited, presented, clicks });
            } else {
                requests.add(stored);
            }
            row = following(&mut rest).await?;
        }
        requests.bots.sort_by(|a, b| (b.retrievals, key(a)).cmp(&(a.retrievals, key(b))));
        Ok(requests)
    }

    /// Returns the hours in which a server of these organizations reported an event, in order, as numbers since 1970. An event counts in
    /// the hour of its own time. A later server report doesn't add an hour.
    pub(crate) async fn hours_seen(&self, seen: &Visibility, period: &Period, observers: &[Uuid]) -> Result<Vec<i64>, ApiError> {
        let scope = Scope::new(seen, period);
        let observers: Vec<String> = observers.iter().map(Uuid::to_string).collect();
        let hours: Vec<HoursRow> = self.all(scope.bind(Statement::new(HOURS)).with("observers", observers)).await?;
        Ok(hours.into_iter().flat_map(|row| row.hours).collect())
    }

    /// Returns the owner's log lines with a correlation id by drain.
    pub(crate) async fn drain_lines(&self, seen: &Visibility, period: &Period) -> Result<Vec<DrainLinesRow>, ApiError> {
        let scope = Scope::new(seen, period);
        self.all(scope.bind(Statement::new(DRAIN_LINES)).with("owner", seen.organization_id().to_string())).await
    }
}

fn key(row: &BotRow) -> (&str, &str, &str, i8) {
    (&row.operator_name, &row.bot_name, &row.purpose_name, row.verified_code)
}
