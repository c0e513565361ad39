//! A page of an owner's events, in two statements: which retrievals may be on it, by their times, out of the index, and what is wide of
//! those that are on it; between them, where times are equal, the ids that decide. However many share one time, no more than a page of what
//! is wide is held.
//!
//! The index alone says what there is and in how many: an observation is stored no later than its row of the index, so that the
//! statements after the first find every row that it named. Must not answer with a page on which one is missing.

use super::Telemetry;
use super::caps::of_any_size;
use super::event_order::{Candidate as Placed, OF_ALL_TOLD, on_page, undecided};
use super::owned::Owned;
use super::retrievals::{Column, key, retrievals, retrievals_near, roles, shown, with_moved};
use super::row_filter::Bound;
use super::rows::{EventRow, FoundPage};
use super::shards::Shards;
use super::shown_columns::{KEY_AS_ID, LINK_SITE, ROLE, owners_columns};
use super::values::Values;
use crate::access::visibility::Visibility;
use crate::parameters::cursor::{Cursor, VERSION_SHIFT};
use crate::parameters::event_filter::EventFilter;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use clickhouse::query::Query;
use schemas::store::OBSERVATIONS;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::HashMap;
use uuid::Uuid;

/// Retrievals are counted by intervals of ten minutes before those of a page are put in order.
const INTERVAL_MS: i64 = 600_000;
/// Ids that one statement looks up.
const LOOKED_UP: usize = 10_000;

/// How much earlier than the row that was named a repeat of it may have been accepted that is stored only now: a day, in the unit of
/// `received`.
const EARLIER: u64 = (86_400 * 1_000_000) << VERSION_SHIFT;

/// Candidates in one row of an answer: many of them may share one time, and the rows of an answer are counted.
const HELD: usize = 500;

/// A retrieval that may be on the page, by the report that represents it.
struct Candidate {
    site: String,
    event_key: u128,
    org: Uuid,
    observer: u8,
    roles: u8,
    at_ms: i64,
    /// How many are newer.
    newer: u64,
    /// When it was accepted, as the index has it.
    received: u64,
}

/// Site, key, organisation, observer, roles, time, how many are newer, when accepted.
type CandidateRow = (String, u128, u128, u8, u8, i64, u64, u64);

#[derive(clickhouse::Row, Deserialize)]
struct Candidates {
    total: u64,
    held: Vec<CandidateRow>,
}

impl From<CandidateRow> for Candidate {
    fn from((site, event_key, org, observer, roles, at_ms, newer, received): CandidateRow) -> Self {
        Self { site, event_key, org: Uuid::from_u128(org), observer, roles, at_ms, newer, received }
    }
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
struct Named {
    event_key: u128,
    id: String,
}

impl Telemetry {
    /// A page of what may be seen.
    pub(crate) async fn owners_events(
        &self,
        seen: &Visibility,
        period: &Period,
        filter: &EventFilter,
        (at, walk): (Paging, &Cursor),
    ) -> Result<FoundPage<EventRow>, ApiError> {
        let found = self.candidates(seen, period, filter, (at, walk)).await?;
        let total = found.first().map_or(0, |first| first.total);
        let candidates: Vec<Candidate> = found.into_iter().flat_map(|found| found.held).map(Candidate::from).collect();
        // What was below the watermark when they were found is below it now.
        let shards = self.shards_now().await?;
        let ids = self.ids_of_retrievals(&undecided(&candidates, walk), &shards).await?;
        let page = on_page(candidates, &ids, (at, walk))?;
        if page.events.is_empty() {
            return Ok(FoundPage::without_items(total));
        }
        self.page_of_events((total, walk), &page, self.told(seen, period, &page.events, &shards)).await
    }

    /// Those that may be on the page, in rows with the total beside them; one row where there are none.
    async fn candidates(
        &self,
        seen: &Visibility,
        period: &Period,
        filter: &EventFilter,
        (at, walk): (Paging, &Cursor),
    ) -> Result<Vec<Candidates>, ApiError> {
        let owned = self.owned(seen, period).await?.on(walk).narrowed(filter);
        let statement = candidates(&owned);
        let query = owned.values.bind(self.client.query(&statement)).param("offset", at.offset);
        let query = query.param("through", at.limit.saturating_add(at.offset));
        // However many share the time of the last on the page: they are narrow.
        self.all(of_any_size(query)).await
    }

    async fn ids_of_retrievals(&self, candidates: &[&Candidate], shards: &Shards) -> Result<HashMap<u128, String>, ApiError> {
        let mut ids = HashMap::new();
        for looked_up in candidates.chunks(LOOKED_UP) {
            let mut values = Values::default();
            let statement = ids_of(&mut values, looked_up, shards);
            let found: Vec<Named> = self.all(by_key(values.bind(self.client.query(&statement)))).await?;
            ids.extend(found.into_iter().map(|named| (named.event_key, named.id)));
        }
        Ok(ids)
    }

    /// What is wide of those on the page.
    fn told(&self, seen: &Visibility, period: &Period, on_page: &[Candidate], shards: &Shards) -> Query {
        let mut owned = Owned::new(seen, period, None).over(shards);
        let statement = told(&mut owned, on_page);
        in_many_granules(by_key(owned.values.bind(self.client.query(&statement))))
    }
}

/// Of rows that are named by the sorting key. A projection would serve a part of the condition, and ClickHouse 26.7 then looks for the
/// rest of it in the projection, where it is not (NOT_FOUND_COLUMN_IN_BLOCK).
pub(super) fn by_key(query: Query) -> Query {
    query.with_setting("optimize_use_projections", "0")
}

/// Of few rows in many granules: all threads of the read take granules, where ClickHouse gives so few rows to one.
fn in_many_granules(query: Query) -> Query {
    let query = query.with_setting("merge_tree_min_rows_for_concurrent_read", "1024");
    query.with_setting("merge_tree_min_bytes_for_concurrent_read", "1")
}

/// Which retrievals may be on a page, by their times: as many as it holds, and all that tie with its first or last. However many
/// there are, only those of the intervals that the page lies in are put in order: `page_at` says first how many retrievals there
/// are, in which interval the page begins and ends, and how many are newer than all of it.
pub(super) fn candidates(owned: &Owned) -> String {
    if !owned.shards.is_one() {
        return candidates_on_shards(owned);
    }
    let ms = "toUnixTimestamp64Milli(at)";
    let all = retrievals(owned, &[shown("at")]);
    // How many of an interval may be on the page, how far it reaches, where it begins and ends, and how many are newer than all of it.
    // A page after another counts from the last of that one on, and reads all that tie with it.
    let (counted, reached, since, before, newer) = if owned.late_from.is_some() {
        let is_after = format!("{ms} < {{after_ms:Int64}}");
        let ties = format!("countIf({ms} = {{after_ms:Int64}}) OVER ()");
        (
            format!("countIf({is_after})"),
            format!("newer < {{through:UInt64}} + {ties}"),
            "if(countIf(is_on_page) = 0, {after_ms:Int64}, minIf(interval, is_on_page))".to_owned(),
            "{after_ms:Int64} + 1".to_owned(),
            "toUInt64(0)",
        )
    } else {
        (
            "count()".to_owned(),
            "newer < {through:UInt64}".to_owned(),
            "minIf(interval, is_on_page)".to_owned(),
            format!("maxIf(interval, is_on_page) + {INTERVAL_MS}"),
            "minIf(newer, is_on_page)",
        )
    };
    // Within the window, so that these ends stand for its own.
    let (since, before) = owned.within_window(&since, &before);
    let page_at = format!(
        "SELECT (sum(there_are), {since}, {before}, {newer}) FROM ( \
           SELECT *, sum(counted) OVER (ORDER BY interval DESC) - counted AS newer, \
             newer < {{through:UInt64}} AND newer + counted > {{offset:UInt64}} AS is_on_page \
           FROM (SELECT {ms} - positiveModulo({ms}, {INTERVAL_MS}) AS interval, count() AS there_are, {counted} AS counted \
                 FROM ({all}) GROUP BY interval))"
    );
    let columns = candidate_columns();
    let ends = [Bound::worked_out(">=", "page_at.2"), Bound::worked_out("<", "page_at.3")];
    let near = retrievals_near(owned, &ends, &columns);
    let is_between = ends.each_ref().map(|end| end.on("at")).join(" AND ");
    format!(
        "{steps}, ({page_at}) AS page_at \
         SELECT assumeNotNull(page_at.1) AS total, arrayJoin(emptyArrayToSingle(groupArray(items))) AS held FROM ( \
           SELECT groupArray(item) AS items FROM ( \
             SELECT (toString(site), event_key, org, observer, roles, {ms}, newer, received) AS item, intDiv(rowNumberInAllBlocks(), {HELD}) AS chunk \
             FROM (SELECT *, toUInt64(assumeNotNull(page_at.4) + rank() OVER (ORDER BY at DESC) - 1) AS newer, \
                     count() OVER (PARTITION BY at) AS tied, {reached} AS is_reached FROM ({near}) WHERE {is_between}) \
             WHERE is_reached AND newer + tied > {{offset:UInt64}}) \
           GROUP BY chunk)",
        steps = with_moved(owned),
    )
}

fn candidate_columns() -> Vec<Column> {
    key().into_iter().chain(["org", "observer", "at", "received"].map(shown)).chain([roles()]).collect()
}

/// The same over several shards, each of which is asked once, so that a page and its total are of one moment of it: all retrievals
/// come together and are put in order.
fn candidates_on_shards(owned: &Owned) -> String {
    let ms = "toUnixTimestamp64Milli(at)";
    let (near, reached) = if owned.late_from.is_some() {
        let ties = format!("countIf({ms} = {{after_ms:Int64}}) OVER ()");
        (format!(" WHERE {ms} <= {{after_ms:Int64}}"), format!("newer < {{through:UInt64}} + {ties}"))
    } else {
        (String::new(), "newer < {through:UInt64}".to_owned())
    };
    let all = retrievals(owned, &candidate_columns());
    format!(
        "WITH all_there_are AS MATERIALIZED ({all}) \
         SELECT total, held FROM (SELECT count() AS total, 1 AS one FROM all_there_are) AS whole \
         LEFT JOIN ( \
           SELECT 1 AS one, groupArray(item) AS held FROM ( \
             SELECT (toString(site), event_key, org, observer, roles, {ms}, newer, received) AS item, intDiv(rowNumberInAllBlocks(), {HELD}) AS chunk \
             FROM (SELECT *, toUInt64(rank() OVER (ORDER BY at DESC) - 1) AS newer, \
                     count() OVER (PARTITION BY at) AS tied, {reached} AS is_reached FROM all_there_are{near}) \
             WHERE is_reached AND newer + tied > {{offset:UInt64}}) \
           GROUP BY chunk) AS page USING (one)"
    )
}

/// The rows of those that represent their retrievals, and the keys in order. They were accepted between the first and the last of
/// these, or a little earlier where an older repeat has taken the place of one since it was named: parts of other times are not read.
fn rows_of(values: &mut Values, candidates: &[&Candidate]) -> (String, String) {
    let rows = || candidates.iter();
    let sites = values.texts("row_site", "String", rows().map(|row| row.site.clone()));
    let orgs = values.texts("row_org", "String", rows().map(|row| row.org.to_string()));
    let observers = values.numbers("row_observer", rows().map(|row| i64::from(row.observer)));
    let keys = values.texts("row_key", "String", rows().map(|row| row.event_key.to_string()));
    let keys = format!("arrayMap(key -> toUInt128(key), {keys})");
    // `version` is `received` with its bits turned round, so that what is older is larger.
    let (first, last) = accepted(candidates);
    let (oldest, newest) =
        (values.text("row_oldest", "UInt64", (!first).to_string()), values.text("row_newest", "UInt64", (!last).to_string()));
    let rows = format!(
        "version BETWEEN {newest} AND {oldest} AND (site, event_key, org_id, observer) IN (SELECT row.1, row.2, toUUID(row.3), toUInt8(row.4) \
           FROM (SELECT arrayJoin(arrayZip({sites}, {keys}, {orgs}, {observers})) AS row))"
    );
    (rows, keys)
}

/// When the first and the last of these were accepted, with an [`EARLIER`] for the first.
fn accepted(candidates: &[&Candidate]) -> (u64, u64) {
    let received = || candidates.iter().map(|row| row.received);
    (received().min().unwrap_or_default().saturating_sub(EARLIER), received().max().unwrap_or_default())
}

/// The id of an event: the reporter's own, else its key.
pub(super) fn id() -> String {
    format!("if(event_id != '', event_id, {KEY_AS_ID})")
}

fn ids_of(values: &mut Values, candidates: &[&Candidate], shards: &Shards) -> String {
    let (rows, _) = rows_of(values, candidates);
    shards.each(&format!(
        "SELECT event_key, argMax({id}, version) AS id FROM {OBSERVATIONS} WHERE {rows}{is_below} GROUP BY event_key",
        id = id(),
        is_below = shards.is_below_watermark(),
    ))
}

/// The items of a page, in the order in which they are given. Of repeats the first report, as FINAL would have it.
fn told(owned: &mut Owned, on_page: &[Candidate]) -> String {
    let (rows, keys) = rows_of(&mut owned.values, &on_page.iter().collect::<Vec<_>>());
    let seen_by = owned.values.numbers("row_roles", on_page.iter().map(|row| i64::from(row.roles)));
    let columns = owners_columns("is_told").map(|(expression, name)| format!("{expression} AS {name}")).join(", ");
    let firsts = owned.shards.each(&format!(
        "SELECT *, {LINK_SITE} AS link_to, indexOf({keys}, event_key) AS place FROM {OBSERVATIONS} WHERE {rows}{is_below} \
         ORDER BY version DESC LIMIT 1 BY site, event_key, org_id, observer",
        is_below = owned.shards.is_below_watermark(),
    ));
    format!(
        "SELECT {OF_ALL_TOLD}, toUInt8(1) AS is_item, {id} AS id, toString(event_type) AS type, {columns}, {ROLE} AS role, toUInt8(0) AS by_other, \
           toUnixTimestamp64Milli(at) AS at_ms, data AS reported, extra AS unknown, \
           arrayMap(bit -> toUInt8(bit), bitPositionsToArray({seen_by}[place])) AS roles \
         FROM ( \
           SELECT *, {may_tell} AS is_told FROM ( {firsts})) \
         ORDER BY place",
        id = id(),
        may_tell = owned.may_tell("link_to", "at"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_limiter::ReadSettings;
    use service_kit::stores;
    use service_kit::testing::TestStores;

    const HOUR: u64 = (3_600 * 1_000_000) << VERSION_SHIFT;

    /// The first report of the event of this key, accepted so many hours after the epoch.
    fn named(event_key: u128, hour: u64) -> Candidate {
        let site = "com.example".to_owned();
        Candidate { site, event_key, org: Uuid::nil(), observer: 0, roles: 0, at_ms: 0, newer: 0, received: hour * HOUR }
    }

    /// Ten thousand events in one part, all accepted at that hour, with ids that say so.
    async fn insert(client: &clickhouse::Client, hour: u64) {
        let rows = format!(
            "INSERT INTO observations (site, event_key, version, event_id) \
             SELECT 'com.example', number, {}, 'accepted at {hour}' FROM numbers(10000)",
            !(hour * HOUR)
        );
        client.query(&rows).execute().await.unwrap();
    }

    async fn store() -> (clickhouse::Client, Telemetry) {
        let client = stores::clickhouse(&TestStores::fresh().await.clickhouse).unwrap();
        client.query("SYSTEM STOP MERGES observations").execute().await.unwrap();
        let telemetry = Telemetry::new(&client, &ReadSettings::default());
        (client, telemetry)
    }

    #[tokio::test]
    async fn a_page_reads_no_part_whose_rows_were_accepted_at_another_time() {
        let (client, telemetry) = store().await;
        for hour in [1_000, 2_000, 3_000] {
            insert(&client, hour).await;
        }
        let mut values = Values::default();
        let on_page = [&named(5, 2_000), &named(9_000, 2_000)];
        let statement = format!("EXPLAIN indexes = 1 {}", ids_of(&mut values, &on_page, &Shards::default()));
        let plan = by_key(values.bind(telemetry.client.query(&statement))).fetch_all::<String>().await.unwrap().join("\n");
        let accepted = plan.split_once("by_acceptance").unwrap_or_else(|| panic!("{plan}")).1;
        assert!(accepted.contains("Parts: 1/3") && accepted.contains("Granules: 2/6"), "{plan}");
    }

    #[tokio::test]
    async fn an_older_repeat_that_took_the_place_of_the_report_that_was_named_is_found() {
        let (client, telemetry) = store().await;
        insert(&client, 2_000 - 24).await;
        let ids = telemetry.ids_of_retrievals(&[&named(5, 2_000), &named(7, 2_000)], &Shards::default()).await.unwrap();
        assert_eq!(ids, HashMap::from([5, 7].map(|key| (key, "accepted at 1976".to_owned()))));
    }
}
