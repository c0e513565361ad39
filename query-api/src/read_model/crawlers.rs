//! Who fetched an owner's content: retrievals by bot, the clicks that came back by agent, and the hours of which anybody tells.
//!
//! Must count each retrieval once, under the bot that the first of its reports names, and must be made of its own words and of
//! the conditions of [`Owned`] only: nothing that a caller wrote.

use super::Telemetry;
use super::answered::NAMES_A_BOT;
use super::caps::{ROWS_OF_AGENTS, of_any_size};
use super::owned::Owned;
use super::retrievals::{SERVERS, identities, key, reports_of_seen, seen_by_servers, whole, with};
use super::rows::following;
use super::shapes::{IS_CLAIM, counted};
use crate::access::visibility::Visibility;
use crate::parameters::period::Period;
use schemas::store::OBSERVATIONS;
use serde::Deserialize;
use service_kit::http::ApiError;

/// Milliseconds of an hour.
const HOUR_MS: i64 = 3_600_000;

/// The retrievals of one bot, from addresses of one kind.
pub(crate) struct BotRow {
    pub(crate) operator: String,
    pub(crate) bot: String,
    pub(crate) purpose: String,
    /// As the column has it: unknown, no, yes.
    pub(crate) verified: i8,
    pub(crate) retrievals: u64,
    pub(crate) bytes: u64,
    pub(crate) corroborated: u64,
    pub(crate) statuses: Vec<(u16, u64)>,
}

/// What one agent claims, and the clicks that came back from it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AgentCounts {
    /// Retrievals.
    pub(crate) claimed: u64,
    pub(crate) cited: u64,
    pub(crate) presented: u64,
    pub(crate) clicks: u64,
}

/// A bot, or agents.
#[derive(clickhouse::Row, Deserialize)]
struct StoredRow {
    operator: String,
    bot: String,
    purpose: String,
    verified: i8,
    statuses: Vec<(u16, u64)>,
    retrievals: u64,
    bytes: u64,
    corroborated: u64,
    /// Of a bot none; names, and [`AgentCounts`] in their order.
    agents: Vec<(String, u64, u64, u64, u64)>,
}

impl Telemetry {
    /// All bots that fetched, most retrievals first; `agent` hears of each agent what it claims. Bots are those of a table, and few.
    pub(crate) async fn crawlers(
        &self,
        seen: &Visibility,
        period: &Period,
        mut agent: impl FnMut(&str, AgentCounts) + Send,
    ) -> Result<Vec<BotRow>, ApiError> {
        let owned = self.owned(seen, period).await?;
        let query = self.client.query(&statement(&owned)).with_setting("join_algorithm", "full_sorting_merge");
        let (mut row, mut rest) = self.started::<StoredRow>(owned.values.bind(of_any_size(query))).await?;
        let mut bots = Vec::new();
        while let Some(stored) = row {
            for (name, claimed, cited, presented, clicks) in stored.agents {
                agent(&name, AgentCounts { claimed, cited, presented, clicks });
            }
            let StoredRow { operator, bot, purpose, verified, statuses, retrievals, bytes, corroborated, .. } = stored;
            if retrievals > 0 {
                bots.push(BotRow { operator, bot, purpose, verified, retrievals, bytes, corroborated, statuses });
            }
            row = following(&mut rest).await?;
        }
        bots.sort_by(|a, b| (b.retrievals, a.key()).cmp(&(a.retrievals, b.key())));
        Ok(bots)
    }

    /// The hours in which a server has seen anything, by number since the epoch, in order.
    pub(crate) async fn hours_seen(&self, seen: &Visibility, period: &Period) -> Result<Vec<i64>, ApiError> {
        let owned = self.owned(seen, period).await?;
        let hours: Vec<HoursRow> = self.rows(&hours(&owned), owned.values).await?;
        Ok(hours.into_iter().flat_map(|row| row.hours).collect())
    }
}

impl BotRow {
    /// What it is of.
    fn key(&self) -> (&str, &str, &str, i8) {
        (&self.operator, &self.bot, &self.purpose, self.verified)
    }
}

/// Bots by what the first report that names one says: an agent's claim names none, so that it is a server's; and agents.
fn statement(owned: &Owned) -> String {
    format!(
        "{steps}\
         SELECT meaning.1 AS operator, meaning.2 AS bot, meaning.3 AS purpose, meaning.4 AS verified, \
           arrayZip((sumMap([meaning.5], [fetched]) AS by_status).1, by_status.2) AS statuses, sum(fetched) AS retrievals, \
           sum(of_bytes) AS bytes, sumIf(fetched, kept) AS corroborated, \
           CAST([], 'Array(Tuple(String, UInt64, UInt64, UInt64, UInt64))') AS agents \
         FROM ( \
           SELECT CAST(fact, 'Tuple(String, String, String, Int8, UInt16)') AS meaning, kept, count() AS fetched, sum(bytes) AS of_bytes \
           FROM ({named}) GROUP BY fact, kept) \
         GROUP BY operator, bot, purpose, verified \
         UNION ALL \
         SELECT '', '', '', toInt8(0), CAST([], 'Array(Tuple(UInt16, UInt64))'), toUInt64(0), toUInt64(0), toUInt64(0), \
           groupArray((agent, counts[1], counts[2], counts[3], counts[4])) \
         FROM ({agents}) GROUP BY cityHash64(agent) % {ROWS_OF_AGENTS}",
        steps = with(owned),
        named = named(owned),
        agents = agents(owned),
    )
}

/// One row per agent with what it claims, in the order of [`AgentCounts`]. A click goes by another's token where its session is
/// another's than its reporter's, and led to the host of the token's link.
fn agents(owned: &Owned) -> String {
    let of_type = |name: &str| format!("retrievals * (event_type = 'content_{name}'");
    format!(
        "SELECT agent, sumForEach(steps) AS counts FROM ( \
           SELECT {IS_CLAIM} AS is_claim, \
             event_type = 'content_engaged' AND reports[1].5 = '' AND reports[1].3 != reports[1].2 AS is_click, \
             multiIf(is_click, reports[1].4, is_claim, agents[1], '') AS agent, \
             [{retrieved} AND is_claim), {cited}), {presented}), retrievals * is_click] AS steps \
           FROM ({counted})) \
         GROUP BY agent HAVING arraySum(counts) > 0",
        retrieved = of_type("retrieved"),
        cited = of_type("cited"),
        presented = of_type("presented"),
        counted = counted(owned),
    )
}

/// One row per retrieval whose request a report names the bot of: what the first of these says, and whether it is `kept`. Reports that
/// count meet what they say by key and acceptance, both in order, so that what is not in memory is on disk and neither
/// side is held as a set.
fn named(owned: &Owned) -> String {
    let named = format!(
        "SELECT any(kept) AS kept, argMin(fact, place) AS fact, argMin(bytes, place) AS bytes FROM ( \
           SELECT event_key, kept, place, fact, bytes FROM ({seen}) AS counted \
           INNER JOIN ( \
             SELECT event_key, bitNot(version) AS received, toUInt128(org_id) AS said_by, observer AS said_as, \
               toString((operator, bot, purpose, toInt8(verified), response_status)) AS fact, response_bytes AS bytes \
             FROM {OBSERVATIONS} WHERE {on_hosts} AND {NAMES_A_BOT}) AS facts USING (event_key, received) \
           WHERE org = said_by AND observer = said_as) \
         GROUP BY event_key",
        seen = seen(owned),
        on_hosts = owned.on_hosts,
    );
    whole(owned, &named)
}

/// One row per report of a server, because an agent that speaks of itself names no bot: of retrievals, in which `place` among
/// their reports, and of each whether an agent claims it that a server of another organisation saw, as `kept`.
fn seen(owned: &Owned) -> String {
    let columns = key().into_iter().chain([identities()]).collect();
    format!(
        "SELECT event_key, kept, place, one.1 AS received, one.2 AS org, one.3 AS observer \
         FROM ( \
           SELECT event_key, known, all_role, \
             arrayFilter((org, role, is_agents) -> role IN (0, 1) AND is_agents, all_org, all_role, are_agents) AS claimants, \
             notEmpty(claimants) AND arrayExists((org, role) -> role IN (2, 3) AND NOT has(claimants, org), all_org, all_role) AS kept \
           FROM ({reports})) \
         ARRAY JOIN known AS one, arrayEnumerate(known) AS place, all_role AS one_role WHERE one_role IN ({SERVERS})",
        reports = reports_of_seen(owned, columns),
    )
}

/// Hours by number since the epoch, all in one row: reporters choose the times of events, and a read may have so many rows and no more.
#[derive(clickhouse::Row, Deserialize)]
struct HoursRow {
    hours: Vec<i64>,
}

/// Whatever a server has reported, also what no bot is named in: it says that somebody looked.
fn hours(owned: &Owned) -> String {
    format!(
        "{steps}SELECT arraySort(groupUniqArray(intDiv(toUnixTimestamp64Milli(happened), {HOUR_MS}))) AS hours FROM ({seen})",
        steps = with(owned),
        seen = seen_by_servers(owned),
    )
}
