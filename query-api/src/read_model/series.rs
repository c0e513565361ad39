//! Figures over time: retrievals by hour or day, and in each bucket by type, role, agent or platform.
//!
//! Must count each retrieval in the bucket of the report that represents it, so that buckets add up to the summary of the same
//! window, and must be made of its own words and of the conditions of [`Owned`] only: nothing that a caller wrote.

use super::Telemetry;
use super::answered::{Fact, valued};
use super::caps::of_any_size;
use super::owned::Owned;
use super::retrievals::{Column, reports, retrievals, sessions, shown, with};
use super::shown_columns::NONE;
use super::values::Values;
use crate::access::visibility::Visibility;
use crate::parameters::period::Period;
use clickhouse::query::RowCursor;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::vec;

/// Cells of one row of the answer: a bucket may have any number of values, and no row is to be large.
const CHUNK: usize = 500;

/// How long a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// An hour of UTC.
    Hour,
    /// A day of UTC.
    Day,
}

impl By {
    /// Milliseconds of a bucket. The epoch begins both an hour and a day.
    pub(crate) fn ms(self) -> i64 {
        match self {
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
        }
    }
}

/// What a bucket of an owner's series is split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Nothing: one value, which has no name.
    Nothing,
    /// Event type.
    Type,
    /// Role that saw it: a retrieval is under each role that did.
    Role,
    /// Reporting organisation and agent: a retrieval is under each agent that reported it.
    Agent,
    /// Reporting organisation alone.
    Platform,
    /// What a server says of the request: a retrieval is under one value.
    Answered(Fact),
}

/// What a bucket of one's own series is split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnSplit {
    /// Nothing.
    Nothing,
    /// Event type.
    Type,
    /// Role in which it was reported.
    Role,
    /// Own agent.
    Agent,
}

/// A value that a bucket is split by: whose it is and its name, or the name alone. Empty where there is none.
pub(crate) type Value = (String, String);

/// The figures of one value in one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Lengths of a bucket since the epoch.
    pub(crate) bucket: i64,
    pub(crate) value: Value,
    pub(crate) events: u64,
    pub(crate) sessions: u64,
    pub(crate) clicks: u64,
    pub(crate) outcomes: u64,
    /// Minor units.
    pub(crate) amount: u128,
}

/// What there is in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First and last bucket with an event, whatever value it stands under, or under none.
    pub(crate) buckets: Option<(i64, i64)>,
    /// Distinct values.
    pub(crate) values: u64,
    /// Bytes of their names.
    pub(crate) bytes: u64,
    /// Pairs of a bucket and a value that hold something.
    pub(crate) cells: u64,
}

/// Whose, name, events, sessions, clicks.
type StoredCell = (String, String, u64, u64, u64);

/// First the extent, then the values, then the cells, both in order.
#[derive(clickhouse::Row, Deserialize)]
struct StoredRow {
    kind: u8,
    is_any: u8,
    bucket: i64,
    last: i64,
    named: u64,
    bytes: u64,
    held: u64,
    told: Vec<StoredCell>,
}

/// The kinds of rows: the extent, values, and cells.
const EXTENT: u8 = 0;
const VALUES: u8 = 1;
const CELLS: u8 = 2;

/// The cells of a series on their way: by bucket, then by value.
pub(crate) struct Cells {
    pub(crate) extent: Extent,
    rest: RowCursor<StoredRow>,
    bucket: i64,
    told: vec::IntoIter<StoredCell>,
}

impl Cells {
    /// All values in order; before any cell is asked for, and for as few as the extent says.
    pub(crate) async fn values(&mut self) -> Result<Vec<Value>, ApiError> {
        let mut values = Vec::new();
        while let Some(row) = self.row().await? {
            if row.kind != VALUES {
                (self.bucket, self.told) = (row.bucket, row.told.into_iter());
                break;
            }
            values.extend(row.told.into_iter().map(|(whose, name, ..)| (whose, name)));
        }
        Ok(values)
    }

    /// The next cell.
    pub(crate) async fn next(&mut self) -> Result<Option<Cell>, ApiError> {
        loop {
            if let Some((whose, name, events, sessions, clicks)) = self.told.next() {
                let (bucket, value) = (self.bucket, (whose, name));
                return Ok(Some(Cell { bucket, value, events, sessions, clicks, ..Cell::default() }));
            }
            let Some(row) = self.row().await? else { return Ok(None) };
            if row.kind != VALUES {
                (self.bucket, self.told) = (row.bucket, row.told.into_iter());
            }
        }
    }

    async fn row(&mut self) -> Result<Option<StoredRow>, ApiError> {
        super::rows::following(&mut self.rest).await
    }
}

impl Telemetry {
    /// An owner's retrievals over time.
    pub(crate) async fn series(&self, seen: &Visibility, period: &Period, by: By, split: Split) -> Result<Cells, ApiError> {
        let owned = self.owned(seen, period).await?;
        self.cells(&owners(&owned, split), owned.values, by).await
    }

    /// What a statement brings that ends as [`told`] does.
    pub(super) async fn cells(&self, statement: &str, values: Values, by: By) -> Result<Cells, ApiError> {
        let query = values.bind(self.client.query(statement)).param("bucket_ms", by.ms());
        // Its rows go out as they come, and none of them is large.
        let (extent, rest) = self.begun::<StoredRow>(of_any_size(query)).await?;
        let StoredRow { is_any, bucket, last, named, bytes, held, .. } = extent;
        let buckets = (is_any == 1).then_some((bucket, last));
        Ok(Cells { extent: Extent { buckets, values: named, bytes, cells: held }, rest, bucket: 0, told: Vec::new().into_iter() })
    }
}

/// Of the retrievals in the window, in each bucket and under each value, how many there are and how many sessions saw them.
pub(super) fn owners(owned: &Owned, split: Split) -> String {
    let all = |columns: &[Column]| retrievals(owned, &[columns, &[shown("at"), sessions(owned)]].concat());
    let cells = match split {
        Split::Nothing => once("''", &all(&[])),
        Split::Type => once("event_type", &all(&[shown("event_type")])),
        Split::Answered(fact) => once("value", &valued(owned, fact)),
        Split::Role => {
            under_each(owned, "arrayMap(role -> role != 0, all_role)", NOBODY, "arrayMap(role -> toString(role), all_role)")
        }
        Split::Agent => under_each(owned, "are_agents", "platforms", "agents"),
        Split::Platform => under_each(owned, "are_agents", "platforms", "arrayMap(of -> '', sessions)"),
    };
    told(&with(owned), &cells)
}

/// Each retrieval under one value, which is a name.
fn once(value: &str, retrievals: &str) -> String {
    format!(
        "SELECT bucket, toUInt8(1) AS is_value, '' AS whose, toString(value) AS name, events, sessions_of_all AS sessions, \
           toUInt64(0) AS clicks \
         FROM ( \
           SELECT {bucket} AS bucket, {value} AS value, count() AS events, uniqExactArray(sessions) AS sessions_of_all \
           FROM ({retrievals}) GROUP BY bucket, value)",
        bucket = bucket("at"),
    )
}

/// For each report of a retrieval nobody.
const NOBODY: &str = "arrayMap(of -> toUUID('00000000-0000-0000-0000-000000000000'), sessions)";

/// Each retrieval under the values of its reports: whether each stands under one, whose it is, and its name.
/// Each session of a value in a bucket is one row first, with how many retrievals it is the first report of that value of.
fn under_each(owned: &Owned, counted: &str, whose: &str, names: &str) -> String {
    format!(
        "SELECT bucket, is_value, if(of = {NONE}, '', toString(of)) AS whose, name, sum(begun) AS events, \
           countIf(session != 0) AS sessions, toUInt64(0) AS clicks \
         FROM ( \
           SELECT {bucket} AS bucket, is_value, if(is_value, platform, {NONE}) AS of, if(is_value, called, '') AS name, session, \
             sum(toUInt64(nth = 1)) AS begun \
           FROM (SELECT *, {counted} AS counted, {whose} AS whose_are, {names} AS names FROM ({reports})) \
           ARRAY JOIN counted AS is_value, whose_are AS platform, names AS called, sessions AS session, \
             arrayEnumerateUniq(counted, whose_are, names) AS nth \
           GROUP BY bucket, is_value, of, name, session) \
         GROUP BY bucket, is_value, of, name",
        bucket = bucket("at"),
        reports = reports(owned, vec![shown("at")]),
    )
}

/// In which bucket a time is.
pub(super) fn bucket(at: &str) -> String {
    let ms = format!("toUnixTimestamp64Milli({at})");
    format!("intDiv({ms} - positiveModulo({ms}, {{bucket_ms:Int64}}), {{bucket_ms:Int64}})")
}

/// The answer out of `cells`: `bucket`, `is_value`, `whose`, `name` and three figures. It names them once, because ClickHouse plans a
/// step anew wherever it is named: of each cell it makes a row for the extent, one for the values and one for the cells. The
/// extent has a row also where there is no cell.
pub(super) fn told(steps: &str, cells: &str) -> String {
    format!(
        "{steps}\
         SELECT kind, toUInt8(max(is_cell)) AS is_any, if(kind = {EXTENT}, minIf(first, is_cell), of_bucket) AS bucket, \
           maxIf(latest, is_cell) AS last, countIf(is_value) AS named, sumIf(length(whose) + length(name), is_value) AS bytes, \
           sumIf(cells, is_value) AS held, arraySort(groupArrayIf((whose, name, events, sessions, clicks), kind != {EXTENT})) AS told \
         FROM ( \
           SELECT *, toUInt64(if(kind = {EXTENT}, 0, intDiv(rowNumberInAllBlocks(), {CHUNK}))) AS chunk FROM ( \
             SELECT kind, is_cell, is_value, whose, name, if(kind = {CELLS}, at, 0) AS of_bucket, min(at) AS first, max(at) AS latest, \
               count() AS cells, sumIf(of_events, kind = {CELLS}) AS events, sumIf(of_sessions, kind = {CELLS}) AS sessions, \
               sumIf(of_clicks, kind = {CELLS}) AS clicks \
             FROM ( \
               SELECT toUInt8(arrayJoin(if(is_value, [{EXTENT}, {VALUES}, {CELLS}], [{EXTENT}]))) AS kind, true AS is_cell, is_value, \
                 toInt64(bucket) AS at, whose, name, events AS of_events, sessions AS of_sessions, clicks AS of_clicks FROM ({cells}) \
               UNION ALL \
               SELECT toUInt8({EXTENT}), false, toUInt8(0), toInt64(0), '', '', toUInt64(0), toUInt64(0), toUInt64(0)) \
             GROUP BY kind, is_cell, is_value, whose, name, of_bucket \
             ORDER BY kind, of_bucket, whose, name)) \
         GROUP BY kind, of_bucket, chunk \
         ORDER BY kind, of_bucket, chunk"
    )
}
