//! One event of an owner with every report of it, in three statements: which keys have a report of that id, which of those events is
//! the newest in the window by the index, and what its reports say.
//!
//! Must tell no report that the owner's list does not count: of each observer the first, in the owner's time, and of a host that is
//! the owner's. Who reported is told of agents and of the report that represents the event, and of nobody else.

use super::Telemetry;
use super::owned::Owned;
use super::owners_page::{by_key, id};
use super::retrievals::{identities, key, reports, roles, shown, with};
use super::rows::ReportRow;
use super::shown_columns::{LINK_SITE, NONE, ROLE, owners_columns};
use super::statements::{CLAIM, CLAIMED_AND_SEEN};
use crate::access::visibility::Visibility;
use crate::parameters::period::Period;
use schemas::problem::Code;
use schemas::store::OBSERVATIONS;
use serde::Deserialize;
use service_kit::http::ApiError;
use uuid::Uuid;

/// Events of one id that are looked through.
const MAX_OF_ID: u64 = 1_000;
/// Reports that are told of one event.
const MAX_REPORTS: u64 = 100;

/// An event, and all that was said of it.
pub(crate) struct FoundEvent {
    /// Events of that id in the window, this one with them.
    pub(crate) of_this_id: u64,
    /// The roles that saw it.
    pub(crate) roles: Vec<u8>,
    /// Of a retrieval of content: whether an agent claims it, and whether a server of another organisation saw it.
    pub(crate) claimed_and_seen: Option<(bool, bool)>,
    /// How many reports there are to be told.
    pub(crate) total_reports: u64,
    /// The first of them, by precedence: the first one represents the event.
    pub(crate) reports: Vec<ReportRow>,
}

#[derive(clickhouse::Row, Deserialize)]
struct KeyRow {
    event_key: u128,
}

#[derive(clickhouse::Row, Deserialize)]
struct Newest {
    of_this_id: u64,
    event_key: u128,
    /// When each report was received, by whom, and as which observer.
    known: Vec<(u64, u128, u8)>,
    roles: u8,
    is_retrieval: u8,
    is_claimed: u8,
    is_seen: u8,
}

impl Telemetry {
    /// The newest event of that id, by any report of it; nothing where the reader may see none.
    pub(crate) async fn owners_event(
        &self,
        seen: &Visibility,
        period: &Period,
        event_id: &str,
    ) -> Result<Option<FoundEvent>, ApiError> {
        let (sites, shards) = (self.visible_sites(seen).await?, self.shards_now().await?);
        let owned = || Owned::new(seen, period, sites.clone()).over(&shards);
        let keys = self.keys_of(owned(), event_id).await?;
        if keys.is_empty() {
            return Ok(None);
        }
        let owned_keys = owned().of_keys(&keys);
        let found = self.rows::<Newest>(&newest(&owned_keys), owned_keys.values).await?;
        let Some(found) = found.into_iter().next() else { return Ok(None) };
        let reports = self.reports(owned(), &found).await?;
        let total_reports = reports.first().map(|first| first.total);
        let missing = || ApiError::unavailable(anyhow::anyhow!("an observation that the index names is not there"));
        Ok(Some(FoundEvent {
            of_this_id: found.of_this_id,
            roles: (0..8).filter(|role| found.roles >> role & 1 == 1).collect(),
            claimed_and_seen: (found.is_retrieval == 1).then_some((found.is_claimed == 1, found.is_seen == 1)),
            total_reports: total_reports.ok_or_else(missing)?,
            reports,
        }))
    }

    /// The keys of events that have a report of that id.
    async fn keys_of(&self, mut owned: Owned, event_id: &str) -> Result<Vec<u128>, ApiError> {
        let statement = keys_of(&mut owned, event_id);
        let query = by_key(owned.values.bind(self.client.query(&statement))).param("most", MAX_OF_ID + 1);
        let found: Vec<KeyRow> = self.all(query).await?;
        if found.len() as u64 > MAX_OF_ID {
            let detail = format!("More than {MAX_OF_ID} events have this ID. Page through them with GET /content-owners/events.");
            return Err(ApiError::new(Code::TooLarge, detail));
        }
        Ok(found.into_iter().map(|row| row.event_key).collect())
    }

    async fn reports(&self, mut owned: Owned, found: &Newest) -> Result<Vec<ReportRow>, ApiError> {
        let statement = reports_of(&mut owned, found);
        self.all(by_key(owned.values.bind(self.client.query(&statement))).param("most", MAX_REPORTS)).await
    }
}

/// On a row: a read may tell of it.
fn may_be_told(owned: &Owned) -> String {
    format!("NOT startsWith(toString(event_type), 'turn_') AND {}", owned.in_owners_time("site", "at"))
}

/// Of each observer the first report, where `rows` says: what a repeat says changes nothing.
fn first_reports(owned: &Owned, rows: &str) -> String {
    owned.shards.each(&format!(
        "SELECT * FROM {OBSERVATIONS} WHERE {on_hosts} AND {rows}{is_below} \
         ORDER BY version DESC LIMIT 1 BY site, event_key, org_id, observer",
        on_hosts = owned.on_hosts,
        is_below = owned.shards.is_below_watermark(),
    ))
}

fn keys_of(owned: &mut Owned, event_id: &str) -> String {
    let asked = owned.values.text("event_id", "String", event_id);
    // The key is the id of an event without one, and of no other.
    let by_key = Uuid::try_parse(event_id).ok().filter(|id| id.to_string() == event_id).map(|id| {
        let key = owned.values.text("event_key", "String", id.as_u128().to_string());
        format!(" OR (event_id = '' AND event_key = toUInt128({key}))")
    });
    let is_asked = format!("(event_id = {asked}{})", by_key.unwrap_or_default());
    let found = format!("SELECT site, event_key FROM {OBSERVATIONS} WHERE {} AND {is_asked}", owned.on_hosts);
    format!(
        "SELECT DISTINCT event_key FROM ({first}) WHERE {is_asked} AND {may_be_told} LIMIT {{most:UInt64}}",
        first = first_reports(owned, &format!("(site, event_key) IN ({found})")),
        may_be_told = may_be_told(owned),
    )
}

fn newest(owned: &Owned) -> String {
    let columns = key().into_iter().chain([shown("at"), shown("event_type"), roles(), identities()]).collect();
    format!(
        "{steps}\
         SELECT count() OVER () AS of_this_id, event_key, known, roles, toUInt8(event_type = 'content_retrieved') AS is_retrieval, \
           toUInt8(claimed) AS is_claimed, toUInt8(seen) AS is_seen \
         FROM (SELECT event_key, known, roles, event_type, at, is_claimed AS claimed, is_seen AS seen \
           FROM (SELECT *, {CLAIMED_AND_SEEN} FROM (SELECT *, {CLAIM} FROM ({reports})))) \
         ORDER BY at DESC, event_key LIMIT 1",
        steps = with(owned),
        reports = reports(owned, columns),
    )
}

fn reports_of(owned: &mut Owned, found: &Newest) -> String {
    let key = owned.values.text("of_key", "String", found.event_key.to_string());
    let named = found.known.iter().map(|(_, org, observer)| format!("{} {observer}", Uuid::from_u128(*org)));
    let named = owned.values.texts("observed_by", "String", named);
    let [session, platform, agent, url, _] = owners_columns("is_told").map(|(expression, _)| expression);
    let is_named = format!("(role = 1 OR session != {NONE} OR nth = 1)");
    format!(
        "SELECT total, id, type, session, if({is_named}, platform, {NONE}) AS platform, \
           if({is_named}, agent, '') AS agent, url, role, at_ms, reported, unknown \
         FROM ( \
           SELECT count() OVER () AS total, row_number() OVER (ORDER BY rank, received, org, watcher) AS nth, id, type, session, platform, \
             agent, url, role, at_ms, reported, unknown \
           FROM ( \
             SELECT {id} AS id, toString(event_type) AS type, {session} AS session, {platform} AS platform, {agent} AS agent, {url} AS url, \
               {ROLE} AS role, toUnixTimestamp64Milli(at) AS at_ms, data AS reported, extra AS unknown, \
               if(source_role = '', 5, toUInt8(source_role)) AS rank, bitNot(version) AS received, toUInt128(org_id) AS org, \
               observer AS watcher \
             FROM (SELECT *, {may_tell} AS is_told FROM (SELECT *, {LINK_SITE} AS link_to FROM ({first}))) \
             WHERE {may_be_told} AND concat(toString(org_id), ' ', toString(observer)) IN (SELECT arrayJoin({named})))) \
         ORDER BY nth LIMIT {{most:UInt64}}",
        id = id(),
        may_tell = owned.may_tell("link_to", "at"),
        first = first_reports(owned, &format!("event_key = toUInt128({key})")),
        may_be_told = may_be_told(owned),
    )
}
