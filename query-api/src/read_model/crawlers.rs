//! Who fetched an owner's content: retrievals by bot, the clicks that came back by agent, and the hours of which anybody tells.
//!
//! Must count each retrieval once, under the bot that the first of its reports names, and must be made of its own words and of
//! the conditions of [`Owned`] only: nothing that a caller wrote.

use super::Telemetry;
use super::answered::NAMES_A_BOT;
use super::owned::Owned;
use super::retrievals::{SERVERS, identities, key, reporter, reports_of_seen, retrievals, seen_by_servers, shown, with};
use super::rows::{FoundPage, PageRow, following};
use super::statements::ON_PAGE;
use crate::access::visibility::Visibility;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use schemas::store::OBSERVATIONS;
use serde::Deserialize;
use service_kit::http::ApiError;

/// The row of how many there are.
const TOTAL: u8 = 0;
/// Rows of agents with the clicks that came back.
const CLICKS: u8 = 1;
/// Rows of bots.
const ITEM: u8 = 2;
/// Milliseconds of an hour.
const HOUR_MS: i64 = 3_600_000;

/// The retrievals of one bot, from addresses of one kind; or what stands before the first of these.
#[derive(clickhouse::Row, Deserialize)]
pub(crate) struct CrawlerRow {
    kind: u8,
    total: u64,
    pub(crate) operator: String,
    pub(crate) bot: String,
    pub(crate) purpose: String,
    /// As the column has it: unknown, no, yes.
    pub(crate) verified: i8,
    pub(crate) retrievals: u64,
    /// Of all bots of the operator.
    pub(crate) of_operator: u64,
    pub(crate) bytes: u64,
    pub(crate) corroborated: u64,
    pub(crate) statuses: Vec<(u16, u64)>,
    agent: String,
    clicks: u64,
}

impl PageRow for CrawlerRow {
    fn total(&self) -> u64 {
        self.total
    }

    fn is_item(&self) -> bool {
        self.kind == ITEM
    }
}

impl Telemetry {
    /// A page of who fetched; `click` hears first of each agent and how many clicks came back from it.
    pub(crate) async fn crawlers(
        &self,
        seen: &Visibility,
        period: &Period,
        at: Paging,
        mut click: impl FnMut(&str, u64) + Send,
    ) -> Result<FoundPage<CrawlerRow>, ApiError> {
        let owned = self.owned(seen, period).await?;
        let query = self.client.query(&statement(&owned)).with_setting("join_algorithm", "full_sorting_merge");
        let query = owned.values.bind(query).param("limit", at.limit).param("offset", at.offset);
        let (head, mut rest) = self.begun::<CrawlerRow>(query).await?;
        let first = loop {
            match following::<CrawlerRow>(&mut rest).await? {
                Some(row) if row.kind == CLICKS => click(&row.agent, row.clicks),
                other => break other,
            }
        };
        Ok(FoundPage { total: head.total, next: None, first, rest: Some(rest) })
    }

    /// The hours in which a server has seen anything, by number since the epoch, in order.
    pub(crate) async fn hours_seen(&self, seen: &Visibility, period: &Period) -> Result<Vec<i64>, ApiError> {
        let owned = self.owned(seen, period).await?;
        let hours: Vec<HoursRow> = self.rows(&hours(&owned), owned.values).await?;
        Ok(hours.into_iter().flat_map(|row| row.hours).collect())
    }
}

/// Bots by what the first report that names one says: an agent's claim names none, so that it is a server's. A click goes by
/// another's token where its session is another's than its reporter's, and led to the host of the token's link.
fn statement(owned: &Owned) -> String {
    let parts = format!(
        "SELECT meaning.1 AS of, meaning.2 AS name, meaning.3 AS why, meaning.4 AS proved, sum(retrievals) AS fetched, \
           sum(of_bytes) AS bytes, sumIf(retrievals, kept) AS corroborated, sumMap([meaning.5], [retrievals]) AS statuses \
         FROM ( \
           SELECT CAST(fact, 'Tuple(String, String, String, Int8, UInt16)') AS meaning, kept, count() AS retrievals, \
             sum(bytes) AS of_bytes \
           FROM ({named}) GROUP BY fact, kept) \
         GROUP BY of, name, why, proved",
        named = named(owned),
    );
    let clicks = ["event_type", "agent", "link_site", "platform", "org"].map(shown);
    let clicked = format!(
        "SELECT toString(agent) AS agent, count() AS clicks FROM ({retrievals}) \
         WHERE event_type = 'content_engaged' AND link_site = '' AND platform != {reporter} GROUP BY agent",
        retrievals = retrievals(owned, &clicks),
        reporter = reporter("org"),
    );
    let steps = with(owned, &[("parts", &parts), ("clicked", &clicked)]);
    format!(
        "{steps}\
         SELECT kind, total, of AS operator, name AS bot, why AS purpose, proved AS verified, fetched AS retrievals, of_operator, \
           bytes, corroborated, told AS statuses, agent, clicks FROM ( \
             SELECT toUInt8({TOTAL}) AS kind, toUInt64(0) AS place, count() AS total, '' AS of, '' AS name, '' AS why, \
               toInt8(0) AS proved, toUInt64(0) AS fetched, toUInt64(0) AS of_operator, toUInt64(0) AS bytes, \
               toUInt64(0) AS corroborated, CAST([], 'Array(Tuple(UInt16, UInt64))') AS told, '' AS agent, toUInt64(0) AS clicks \
             FROM parts \
             UNION ALL \
             SELECT toUInt8({CLICKS}), toUInt64(0), toUInt64(0), '', '', '', toInt8(0), toUInt64(0), toUInt64(0), toUInt64(0), \
               toUInt64(0), CAST([], 'Array(Tuple(UInt16, UInt64))'), agent, clicks FROM clicked \
             UNION ALL \
             SELECT toUInt8({ITEM}), place, toUInt64(0), of, name, why, proved, fetched, of_operator, bytes, corroborated, \
               arrayZip(statuses.1, statuses.2), '', toUInt64(0) \
             FROM (SELECT *, sum(fetched) OVER (PARTITION BY of) AS of_operator, row_number() OVER (ORDER BY {MOST_FIRST}) AS place \
                   FROM parts ORDER BY place {ON_PAGE})) \
         ORDER BY kind, place, agent"
    )
}

/// One row per retrieval whose request a report names the bot of: what the first of these says, and whether it is `kept`. Reports that
/// count meet what they say by key and acceptance, both in order, so that what is not in memory is on disk and neither
/// side is held as a set.
fn named(owned: &Owned) -> String {
    format!(
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
    )
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

/// The order of bots.
const MOST_FIRST: &str = "fetched DESC, of, name, why, proved";

/// Hours by number since the epoch, all in one row: reporters choose the times of events, and a read may have so many rows and no more.
#[derive(clickhouse::Row, Deserialize)]
struct HoursRow {
    hours: Vec<i64>,
}

/// Whatever a server has reported, also what no bot is named in: it says that somebody looked.
fn hours(owned: &Owned) -> String {
    format!(
        "{steps}SELECT arraySort(groupUniqArray(intDiv(toUnixTimestamp64Milli(happened), {HOUR_MS}))) AS hours FROM ({seen})",
        steps = with(owned, &[]),
        seen = seen_by_servers(owned),
    )
}
