//! Events over time: by hour or day, and in each bucket by one of several splits.

use super::Reads;
use super::rows::following;
use super::scope::Outcome;
use super::statement::Statement;
use crate::access::visibility::Visibility;
use crate::parameters::period::Period;
use crate::read_model::{By, Cell, Extent, Value};
use clickhouse::query::RowCursor;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::{BTreeSet, VecDeque};

const SERIES: &str = include_str!("../../sql/series.sql");
const SERIES_ROLE: &str = include_str!("../../sql/series_role.sql");
const SERIES_AGENT: &str = include_str!("../../sql/series_agent.sql");

/// What a bucket of an owner's series is split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Not split: one value without a name.
    Nothing,
    /// Event type.
    Type,
    /// Role: an event is under each role that reported it.
    Role,
    /// Platform and agent: an event is under each agent that reported it.
    Agent,
    /// Platform alone.
    Platform,
    /// Operator of the bot; this and the next three are empty for events of which no report names a bot.
    Operator,
    /// Bot.
    Bot,
    /// What the bot fetches for.
    Purpose,
    /// Whether the request came from an address of the operator: `yes`, `no` or empty.
    Verified,
    /// HTTP status; empty if unknown.
    Status,
    /// [`Outcome`] of a fetch; empty for other events.
    Outcome,
}

/// A row of the statements: a cell, and the extent of the whole series.
#[derive(clickhouse::Row, Deserialize)]
struct StoredCell {
    bucket: i64,
    /// 0 if its events are under no value.
    is_value: u8,
    owner: String,
    name: String,
    events: u64,
    sessions: u64,
    first_bucket: i64,
    last_bucket: i64,
    value_count: u64,
    name_bytes: u64,
    cell_count: u64,
}

impl StoredCell {
    fn extent(&self) -> Extent {
        let Self { first_bucket, last_bucket, value_count, name_bytes, cell_count, .. } = *self;
        Extent { buckets: Some((first_bucket, last_bucket)), values: value_count, bytes: name_bytes, cells: cell_count }
    }

    fn cell(self) -> Option<Cell> {
        let Self { bucket, is_value, owner, name, events, sessions, .. } = self;
        (is_value == 1).then(|| Cell { bucket, value: (owner, name), events, sessions, ..Cell::default() })
    }
}

/// The cells of a series as they arrive, ordered by bucket and value.
pub(crate) struct Cells {
    pub(crate) extent: Extent,
    ready: VecDeque<Cell>,
    rest: RowCursor<StoredCell>,
}

impl Cells {
    /// Returns all values in order. Reads all cells into memory, so check the extent before.
    pub(crate) async fn values(&mut self) -> Result<Vec<Value>, ApiError> {
        while let Some(row) = following(&mut self.rest).await? {
            self.ready.extend(row.cell());
        }
        let values: BTreeSet<&Value> = self.ready.iter().map(|cell| &cell.value).collect();
        Ok(values.into_iter().cloned().collect())
    }

    /// Returns the next cell.
    pub(crate) async fn next(&mut self) -> Result<Option<Cell>, ApiError> {
        while self.ready.is_empty() {
            let Some(row) = following(&mut self.rest).await? else { return Ok(None) };
            self.ready.extend(row.cell());
        }
        Ok(self.ready.pop_front())
    }
}

impl Reads {
    /// Returns a series. All buckets together have the events of the summary.
    pub(crate) async fn series(
        &self,
        seen: &Visibility,
        period: &Period,
        (by, split): (By, Split),
        outcome: Option<Outcome>,
    ) -> Result<Cells, ApiError> {
        let scope = self.scope(seen, period).await?.narrowed(outcome);
        let (first, rest) = self.begun::<StoredCell>(scope.bind(statement(split)).with("bucket_ms", by.ms())).await?;
        let extent = first.as_ref().map(StoredCell::extent).unwrap_or_default();
        Ok(Cells { extent, ready: first.and_then(StoredCell::cell).into_iter().collect(), rest })
    }
}

fn statement(split: Split) -> Statement {
    let by_value = |column: &str| Statement::new(SERIES).with("value", column);
    match split {
        Split::Nothing => by_value("nothing"),
        Split::Type => by_value("type"),
        Split::Operator => by_value("operator"),
        Split::Bot => by_value("bot"),
        Split::Purpose => by_value("purpose"),
        Split::Verified => by_value("verified_name"),
        Split::Status => by_value("status_name"),
        Split::Outcome => by_value("fetch_outcome"),
        Split::Role => Statement::new(SERIES_ROLE),
        Split::Agent => Statement::new(SERIES_AGENT).with("names", "agent_names"),
        Split::Platform => Statement::new(SERIES_AGENT).with("names", "no_names"),
    }
}
