//! An organization's own reports over time, and what others did with its click tokens.

use super::Reads;
use super::agent_events::own_reports;
use super::rows::following;
use crate::access::visibility::OwnReports;
use crate::parameters::period::Period;
use crate::read_model::{By, Cell, Extent, OwnSplit, Value};
use clickhouse::query::RowCursor;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::{BTreeSet, VecDeque};

/// A cell, and the extent of the whole series.
#[derive(clickhouse::Row, Deserialize)]
struct StoredCell {
    bucket: i64,
    /// 0 if its reports are under no value.
    is_value: u8,
    name: String,
    events: u64,
    sessions: u64,
    clicks: u64,
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
        let Self { bucket, is_value, name, events, sessions, clicks, .. } = self;
        (is_value == 1).then(|| Cell { bucket, value: (String::new(), name), events, sessions, clicks, ..Cell::default() })
    }
}

/// The cells of a series as they arrive, ordered by bucket and value.
pub(crate) struct OwnCells {
    pub(crate) extent: Extent,
    ready: VecDeque<Cell>,
    rest: RowCursor<StoredCell>,
}

impl OwnCells {
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
    /// Returns an organization's own series. All buckets together have the events and clicks of its summary.
    pub(crate) async fn own_series(
        &self,
        own: &OwnReports,
        period: &Period,
        by: By,
        split: OwnSplit,
    ) -> Result<OwnCells, ApiError> {
        let statement = own_reports(include_str!("../../sql/agent_series.sql"), own, period)
            .with("bucket_ms", by.ms())
            .with("split", name_of(split));
        let (first, rest) = self.begun::<StoredCell>(statement).await?;
        let extent = first.as_ref().map(StoredCell::extent).unwrap_or_default();
        Ok(OwnCells { extent, ready: first.and_then(StoredCell::cell).into_iter().collect(), rest })
    }
}

fn name_of(split: OwnSplit) -> &'static str {
    match split {
        OwnSplit::Nothing => "",
        OwnSplit::Type => "type",
        OwnSplit::Role => "role",
        OwnSplit::Agent => "agent",
    }
}
