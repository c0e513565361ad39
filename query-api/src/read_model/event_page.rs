//! A page of a party's events, in two statements: which events may be on it, by their times, and what is wide of those that are on it;
//! between them, where times are equal, the ids that decide. The last two find their rows by the sorting key, which they could not if the
//! keys were a step of theirs: a key that the statement has yet to find leaves out no part of the table. However many share one
//! time, no more than a page of what is wide is held.
//!
//! The first statement alone says what there is and in how many. Must not answer with a page on which one is missing, and must be made
//! of its own words and of the conditions of [`RowFilter`] only: nothing that a caller wrote.

use super::Telemetry;
use super::caps::of_any_size;
use super::event_order::{Candidate as Placed, OF_ALL_TOLD, on_page, undecided};
use super::owners_page::by_key;
use super::party::{retrievals, shown, with_precedence};
use super::row_filter::RowFilter;
use super::rows::{EventRow, FoundPage};
use super::shards::Shards;
use super::shown_columns::{self, BY_OTHER, ROLE};
use crate::access::visibility::OwnReports;
use crate::parameters::cursor::Cursor;
use crate::parameters::event_filter::ReportedBy;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::HashMap;

/// Ids that one statement looks up.
const LOOKED_UP: usize = 10_000;
/// Candidates in one row of an answer: many of them may share one time, and the rows of an answer are counted.
const HELD: usize = 500;

/// An event that may be on the page, by the report that represents it, and where its reports lie.
struct Candidate {
    sites: Vec<String>,
    event_key: u128,
    at_ms: i64,
    /// How many are newer; not counted after another page.
    newer: u64,
}

impl Placed for Candidate {
    fn event_key(&self) -> u128 {
        self.event_key
    }

    fn at_ms(&self) -> i64 {
        self.at_ms
    }

    fn newer(&self) -> u64 {
        self.newer
    }
}

#[derive(clickhouse::Row, Deserialize)]
struct Candidates {
    total: u64,
    held: Vec<(Vec<String>, u128, i64, u64)>,
}

#[derive(clickhouse::Row, Deserialize)]
struct Named {
    event_key: u128,
    id: String,
}

/// Whose events, of which time and by whom, and where the walk through them has begun.
struct List<'a> {
    own: &'a OwnReports,
    period: &'a Period,
    reported_by: Option<ReportedBy>,
    walk: &'a Cursor,
    shards: &'a Shards,
}

impl List<'_> {
    fn filter(&self) -> RowFilter {
        RowFilter::of_party(self.own, self.period).narrowed(self.reported_by).on(self.walk).over(self.shards)
    }
}

impl Telemetry {
    /// A page of the events that one took part in, or of those that oneself or others reported.
    pub(crate) async fn own_events(
        &self,
        own: &OwnReports,
        period: &Period,
        reported_by: Option<ReportedBy>,
        (at, walk): (Paging, &Cursor),
    ) -> Result<FoundPage<EventRow>, ApiError> {
        let shards = self.shards_now().await?;
        let list = List { own, period, reported_by, walk, shards: &shards };
        let filter = list.filter();
        let query = filter.values.bind(self.client.query(&candidates(&list.filter())));
        let query = query.param("limit", at.limit).param("offset", at.offset);
        let query = query.param("through", at.limit.saturating_add(at.offset));
        // However many share the time of the last on the page: they are narrow.
        let found: Vec<Candidates> = self.all(of_any_size(query)).await?;
        let total = found.first().map_or(0, |first| first.total);
        let held = found.into_iter().flat_map(|found| found.held);
        let candidates: Vec<_> =
            held.map(|(sites, event_key, at_ms, newer)| Candidate { sites, event_key, at_ms, newer }).collect();
        let ids = self.ids_of(&list, &undecided(&candidates, walk)).await?;
        let page = on_page(candidates, &ids, (at, walk))?;
        if page.events.is_empty() {
            return Ok(FoundPage::without_items(total));
        }
        let mut filter = list.filter();
        let statement = told(&mut filter, &page.events);
        let told = by_key(filter.values.bind(self.client.query(&statement)));
        self.page_of_events((total, walk), &page, told).await
    }

    async fn ids_of(&self, list: &List<'_>, candidates: &[&Candidate]) -> Result<HashMap<u128, String>, ApiError> {
        let mut ids = HashMap::new();
        for looked_up in candidates.chunks(LOOKED_UP) {
            let mut filter = list.filter();
            let statement = names(&mut filter, looked_up);
            let found: Vec<Named> = self.all(by_key(filter.values.bind(self.client.query(&statement)))).await?;
            ids.extend(found.into_iter().map(|named| (named.event_key, named.id)));
        }
        Ok(ids)
    }
}

/// On which hosts a retrieval was reported, for finding its rows again.
const SITES: &str = "groupUniqArray(site) AS sites";

/// The events of the list.
fn listed_events(filter: &RowFilter) -> String {
    let Some(by_other) = &filter.by_other else { return retrievals(filter, &[], &[SITES]) };
    let all = retrievals(filter, &[(BY_OTHER, "is_others")], &[SITES]);
    format!("SELECT * FROM ({all}) WHERE is_others = {by_other}")
}

/// Those that may be on the page, by their times: as many as it holds, and all that tie with its first or last, in rows with the
/// total beside them. A page after another begins with all that tie with the last of that one.
pub(super) fn candidates(filter: &RowFilter) -> String {
    if filter.is_late.is_some() { after(filter) } else { newest(filter) }
}

/// Names the list once, because ClickHouse analyses it anew wherever it is named: the total is a window over all of it. No row where there
/// is no event; of a page beyond the last one, a row that holds none.
fn newest(filter: &RowFilter) -> String {
    format!(
        "SELECT any(total) AS total, groupArrayIf(item, is_near) AS held FROM ( \
           SELECT total, (sites, event_key, toUnixTimestamp64Milli(shown_at), newer) AS item, newer + tied > {{offset:UInt64}} AS is_near, \
             if(is_near, intDiv(rowNumberInAllBlocks(), {HELD}), 0) AS chunk \
           FROM (SELECT *, toUInt64(rank() OVER (ORDER BY shown_at DESC) - 1) AS newer, count() OVER (PARTITION BY shown_at) AS tied FROM ( \
             SELECT *, count() OVER () AS total FROM ({list}) ORDER BY shown_at DESC LIMIT {{through:UInt64}} WITH TIES))) \
         GROUP BY chunk",
        list = listed_events(filter),
    )
}

/// Names the list several times: how many tie with the last of the page before is not known, and to rank all that are older would be to
/// sort them all. One row where there are none.
fn after(filter: &RowFilter) -> String {
    let at = "fromUnixTimestamp64Milli({after_ms:Int64}, 'UTC')";
    let older = format!("SELECT * FROM retrievals WHERE shown_at < {at} ORDER BY shown_at DESC LIMIT {{limit:UInt64}} WITH TIES");
    format!(
        "WITH retrievals AS MATERIALIZED ({list}) \
         SELECT total, held FROM (SELECT count() AS total, 1 AS one FROM retrievals) AS whole \
         LEFT JOIN ( \
           SELECT 1 AS one, groupArray(item) AS held FROM ( \
             SELECT (sites, event_key, toUnixTimestamp64Milli(shown_at), toUInt64(0)) AS item, intDiv(rowNumberInAllBlocks(), {HELD}) AS chunk \
             FROM (SELECT * FROM retrievals WHERE shown_at = {at} UNION ALL SELECT * FROM ({older}))) \
           GROUP BY chunk) AS page USING (one)",
        list = listed_events(filter),
    )
}

/// The rows of these, and their keys in order.
fn rows_of(filter: &mut RowFilter, candidates: &[&Candidate]) -> (String, String) {
    let rows = || candidates.iter().flat_map(|row| row.sites.iter().map(move |site| (site.clone(), row.event_key.to_string())));
    let sites = filter.values.texts("row_site", "String", rows().map(|(site, _)| site));
    let keys = filter.values.texts("row_key", "String", rows().map(|(_, key)| key));
    let keys = format!("arrayMap(key -> toUInt128(key), {keys})");
    let found = format!("(site, event_key) IN ( SELECT row.1, row.2 FROM (SELECT arrayJoin(arrayZip({sites}, {keys})) AS row))");
    let rows = format!("{} WHERE {}", filter.shards.first_reports(&found), filter.visible);
    (rows, keys)
}

fn names(filter: &mut RowFilter, candidates: &[&Candidate]) -> String {
    let (rows, _) = rows_of(filter, candidates);
    let (with_precedence, id) = (with_precedence(filter), shown(&(shown_columns::id().as_str(), "id")));
    filter.shards.each(&format!("{with_precedence} SELECT event_key, {id} FROM {rows} GROUP BY event_key"))
}

/// The items of a page, in the order in which they are given.
fn told(filter: &mut RowFilter, on_page: &[Candidate]) -> String {
    let (rows, keys) = rows_of(filter, &on_page.iter().collect::<Vec<_>>());
    let id = shown_columns::id();
    let wide = [
        ("toUnixTimestamp64Milli(at)", "at_ms"),
        (id.as_str(), "id"),
        ("toString(event_type)", "type"),
        (ROLE, "role"),
        ("data", "reported"),
        ("extra", "unknown"),
    ];
    let by_column = shown_columns::columns().map(|(expression, name)| shown(&(expression.as_str(), name)));
    let events = filter.shards.each(&format!(
        "{with_precedence} SELECT indexOf({keys}, event_key) AS place, {wide}, {by_column}, \
         arraySort(groupUniqArray({ROLE})) AS roles FROM {rows} GROUP BY event_key",
        with_precedence = with_precedence(filter),
        wide = wide.each_ref().map(shown).join(", "),
        by_column = by_column.join(", "),
    ));
    format!(
        "SELECT {OF_ALL_TOLD}, toUInt8(1) AS is_item, id, type, session, platform, agent, url, telemetry_id, role, by_other, at_ms, \
           reported, unknown, roles \
         FROM ( {events}) \
         ORDER BY place",
    )
}
