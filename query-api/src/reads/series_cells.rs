//! A series' cells, as returned by the statements.

use super::Reads;
use super::rows::following;
use super::statement::Statement;
use clickhouse::query::RowCursor;
use serde::Deserialize;
use service_kit::http::ApiError;
use std::collections::{BTreeSet, VecDeque};

/// The split's value in a bucket: whether it is the sum of unlisted values, then owner and name, or only the name. Unused strings are
/// empty.
pub(crate) type Value = (bool, String, String);

/// One value's figures in one bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The bucket's number since 1970.
    pub(crate) bucket: i64,
    pub(crate) value: Value,
    pub(crate) events: u64,
    pub(crate) sessions: u64,
    pub(crate) clicks: u64,
    pub(crate) outcomes: u64,
    /// Amount in minor units of the currency.
    pub(crate) amount: u128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// First and last bucket with an event, even if the event has no value.
    pub(crate) buckets: Option<(i64, i64)>,
    pub(crate) values: u64,
    /// Length of the longest name in bytes.
    pub(crate) longest: u64,
    /// Number of pairs of bucket and value that have an event.
    pub(crate) cells: u64,
}

/// A row of a series: one cell, and the extent of the whole series.
#[derive(clickhouse::Row, Deserialize)]
struct StoredCell {
    /// Bucket, kind, owner and name. Kind 0 has no value, 1 is a value, and 2 is the sum of unlisted values.
    key: (i64, u8, String, String),
    events: u64,
    sessions: u64,
    clicks: u64,
    first_bucket: i64,
    last_bucket: i64,
    value_count: u64,
    longest_name: u64,
    cell_count: u64,
}

impl StoredCell {
    fn extent(&self) -> Extent {
        let Self { first_bucket, last_bucket, value_count, longest_name, cell_count, .. } = *self;
        Extent { buckets: Some((first_bucket, last_bucket)), values: value_count, longest: longest_name, cells: cell_count }
    }

    fn cell(self) -> Option<Cell> {
        let Self { key: (bucket, kind, owner, name), events, sessions, clicks, .. } = self;
        (kind > 0).then(|| Cell { bucket, value: (kind == 2, owner, name), events, sessions, clicks, ..Cell::default() })
    }
}

/// A series' cells in order of bucket and value, read as they arrive.
pub(crate) struct Cells {
    pub(crate) extent: Extent,
    ready: VecDeque<Cell>,
    rest: RowCursor<StoredCell>,
}

impl Cells {
    /// Returns all values in order. Reads all cells into memory, so check the extent first.
    pub(crate) async fn values(&mut self) -> Result<Vec<Value>, ApiError> {
        while let Some(row) = following(&mut self.rest).await? {
            self.ready.extend(row.cell());
        }
        let values: BTreeSet<&Value> = self.ready.iter().map(|cell| &cell.value).collect();
        Ok(values.into_iter().cloned().collect())
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Cell>, ApiError> {
        while self.ready.is_empty() {
            let Some(row) = following(&mut self.rest).await? else { return Ok(None) };
            self.ready.extend(row.cell());
        }
        Ok(self.ready.pop_front())
    }
}

impl Reads {
    pub(super) async fn cells(&self, statement: Statement) -> Result<Cells, ApiError> {
        let (first, rest) = self.first_row::<StoredCell>(statement).await?;
        let extent = first.as_ref().map(StoredCell::extent).unwrap_or_default();
        Ok(Cells { extent, ready: first.and_then(StoredCell::cell).into_iter().collect(), rest })
    }
}
