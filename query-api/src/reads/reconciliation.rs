//! Differences between the fetches that agents claim and those that servers saw (docs/api/reconciliation.md).
//!
//! Two statements: the first returns the names of the agents, whose operators the bot table knows. Names that
//! appeared since, or that exceed a limit, have no operator.

use super::Reads;
use super::event_page::id_of;
use super::report_content::{Place, missing};
use super::scope::Scope;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::event_filter::EventFilter;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use schemas::bots::BotTable;
use schemas::site::Site;
use serde::Deserialize;
use service_kit::http::ApiError;
use uuid::Uuid;

const FETCHES: &str = concat!(include_str!("../../sql/reconciliation_fetches.sql"), include_str!("../../sql/reconciliation.sql"));
const AGENTS: &str = include_str!("../../sql/reconciliation_agents.sql");
const DAY_MS: i64 = 86_400_000;
/// Names of agents whose operators are looked up, per reporter and in total, because reporters can make up names.
const AGENTS_PER_REPORTER: u64 = 100;
const MOST_AGENTS: u64 = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconciledBy {
    Finding,
    Agent,
    Url,
    Event,
}

/// The organizations whose servers cover hours, and the hours in which a drain of a host had a line.
pub(crate) struct Servers {
    pub(crate) observers: Vec<Uuid>,
    /// Hosts with hours since 1970; subdomains are included.
    pub(crate) drain_hours: Vec<(Site, i64)>,
}

/// The requested fetches.
#[derive(Clone, Debug)]
pub(crate) struct ReconciledFetches {
    pub(crate) by: ReconciledBy,
    /// `None` for all licensees.
    pub(crate) operator: Option<String>,
    /// Empty for all findings.
    pub(crate) finding: String,
    /// The other filters.
    pub(crate) filter: EventFilter,
}

#[derive(clickhouse::Row, Deserialize)]
struct AgentRow {
    agent: String,
}

/// Fetches of a licensee with the same finding. Members that the list isn't split by are empty.
#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct ReconciliationRow {
    total: u64,
    is_item: u8,
    pub(crate) licensee: String,
    pub(crate) finding: String,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) platform: Uuid,
    pub(crate) agent: String,
    pub(crate) url: String,
    /// Key, and organization, time and identity of the report that represents it.
    event: (u128, String, i64, u128),
    pub(crate) fetch_count: u64,
    /// Time of the newest fetch.
    pub(crate) last_ms: i64,
}

/// The days that touch the hour before the period, the period, and the hour after it.
pub(crate) fn scanned_days(period: &Period) -> Period {
    const HOUR_MS: i64 = 3_600_000;
    let day = |ms: i64| ms.div_euclid(DAY_MS).saturating_mul(DAY_MS);
    Period {
        from_ms: period.from_ms.map(|ms| day(ms.saturating_sub(HOUR_MS))),
        before_ms: period.before_ms.map(|ms| day(ms.saturating_add(HOUR_MS - 1)).saturating_add(DAY_MS)),
        ..Period::default()
    }
}

impl Reads {
    /// Returns the length of the list, and a page of it. Rows come with the event's id if the list is by event. Those with the
    /// most fetches are first; events are sorted newest first.
    pub(crate) async fn reconciliation(
        &self,
        seen: &Visibility,
        period: &Period,
        (asked, servers, bots): (&ReconciledFetches, &Servers, &BotTable),
        at: Paging,
    ) -> Result<(u64, Vec<(ReconciliationRow, String)>), ApiError> {
        let days = scanned_days(period);
        let scan = |statement: Statement| {
            let (from_ms, until_ms) = Scope::new(seen, &days).window();
            statement.with("scan_from_ms", from_ms).with("scan_until_ms", until_ms)
        };
        let scope = Scope::new(seen, period);
        let observers = servers.observers.iter().map(Uuid::to_string).collect::<Vec<_>>();
        let agents = scan(scope.bind(Statement::new(AGENTS)))
            .with("observers", observers.clone())
            .with("most_per_reporter", AGENTS_PER_REPORTER)
            .with("most", MOST_AGENTS);
        let agents: Vec<AgentRow> = self.all(agents).await?;
        let operator = |agent: &String| bots.classify_text(agent).map_or_else(String::new, |bot| bot.operator.to_string());
        let hour = |(host, hour): &(Site, i64)| [host.as_str().into(), (*hour).into()];
        let statement = scan(scope.filtered(&asked.filter).bind(Statement::new(FETCHES)))
            .with_table(
                "agent_operators",
                "agent String, operator String",
                agents.iter().map(|AgentRow { agent }| [agent.as_str().into(), operator(agent).into()]),
            )
            .with_table("drain_hours", "host String, hour Int64", servers.drain_hours.iter().map(hour))
            .with("observers", observers)
            .with("is_all", asked.operator.is_none())
            .with("licensee", asked.operator.as_deref().unwrap_or_default())
            .with("finding", asked.finding.as_str())
            .with("offset", at.offset)
            .with("through", at.limit.saturating_add(at.offset));
        let rows: Vec<ReconciliationRow> = self.all(split(statement, asked.by)).await?;
        let total = rows.first().map_or(0, |row| row.total);
        let rows: Vec<ReconciliationRow> = rows.into_iter().filter(|row| row.is_item == 1).collect();
        let ids = if asked.by == ReconciledBy::Event { self.ids_of(&rows).await? } else { vec![String::new(); rows.len()] };
        Ok((total, rows.into_iter().zip(ids).collect()))
    }

    /// Returns the ids of the rows' events, as the list of events shows them.
    async fn ids_of(&self, rows: &[ReconciliationRow]) -> Result<Vec<String>, ApiError> {
        let place = |row: &ReconciliationRow| {
            let (_, organization, at_ms, identity) = row.event.clone();
            Place { organization, at_ms, identity }
        };
        let places: Vec<Place> = rows.iter().map(place).collect();
        let mut ids = Vec::with_capacity(rows.len());
        if places.is_empty() {
            return Ok(ids);
        }
        let mut reports = self.reports_at(&places, false).await?;
        for row in rows {
            let report = reports.next().await?.ok_or_else(missing)?;
            ids.push(if report.event_id.is_empty() { id_of(row.event.0) } else { report.event_id });
        }
        Ok(ids)
    }
}

fn split(statement: Statement, by: ReconciledBy) -> Statement {
    let (platform, agent, url, event, usual) = match by {
        ReconciledBy::Finding => ("nobody", "nothing", "nothing", "no_event", "fetch_count"),
        ReconciledBy::Agent => ("claimant", "claiming_agent", "nothing", "no_event", "fetch_count"),
        ReconciledBy::Url => ("nobody", "nothing", "url", "no_event", "fetch_count"),
        ReconciledBy::Event => ("claimant", "claiming_agent", "url", "one_event", "last_ms"),
    };
    let columns = [("of_platform", platform), ("of_agent", agent), ("of_url", url), ("of_event", event), ("usual", usual)];
    columns.into_iter().fold(statement, |statement, (name, column)| statement.with(name, column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_whole_days_around_an_hour_more() {
        let days = |since: &str, until: &str| {
            let period = scanned_days(&Period::parse(Some(since), Some(until)).unwrap());
            (period.from_ms.unwrap() / DAY_MS, period.before_ms.unwrap() / DAY_MS)
        };
        assert_eq!(days("1970-01-03", "1970-01-03"), (1, 4));
        assert_eq!(days("1970-01-03T01:00:00Z", "1970-01-03T23:00:00Z"), (2, 3));
        assert_eq!(days("1970-01-03T00:59:59Z", "1970-01-03T23:00:00.001Z"), (1, 4));
    }
}
