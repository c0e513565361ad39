//! A series' cells, with zeros for cells without events.
//!
//! A cell outside the series is an error and never skipped. Reporters choose value names, so zeros repeat at most [`MAX_BYTES`] of names.

use crate::reads::{Cell, Cells, Extent, Rows, Value};
use service_kit::http::ApiError;
use std::ops::RangeInclusive;
use std::vec;

/// Maximum number of items in a filled series. Larger series contain no zeros.
pub(crate) const MAX_FILLED: u64 = 100_000;
/// Maximum size of the names in these items.
const MAX_BYTES: u64 = 16_777_216;

/// Source of the cells, in order.
pub(crate) enum Source {
    Stored(Box<Cells>),
    Loaded(vec::IntoIter<Cell>),
}

impl Source {
    async fn next(&mut self) -> Result<Option<Cell>, ApiError> {
        match self {
            Self::Stored(cells) => cells.next().await,
            Self::Loaded(cells) => Ok(cells.next()),
        }
    }
}

pub(crate) struct FilledSeries {
    source: Source,
    /// The next cell that has not been returned.
    waiting: Option<Cell>,
    total: u64,
    places: Option<Places>,
}

/// All pairs of bucket and value, in order.
struct Places {
    buckets: RangeInclusive<i64>,
    values: Vec<Value>,
    next: usize,
}

impl Places {
    fn next(&mut self) -> Option<(i64, &Value)> {
        if self.next == self.values.len() {
            self.next = 0;
            self.buckets.next();
        }
        if self.buckets.is_empty() {
            return None;
        }
        self.next += 1;
        Some((*self.buckets.start(), self.values.get(self.next - 1)?))
    }
}

impl FilledSeries {
    /// Fills `buckets` for every value. A series that is not split has one value without a name.
    pub(crate) async fn begin(
        buckets: Option<RangeInclusive<i64>>,
        is_whole: bool,
        extent: Extent,
        mut source: Source,
    ) -> Result<Self, ApiError> {
        let count = buckets.as_ref().map_or(0, |buckets| buckets.end().abs_diff(*buckets.start()) + 1);
        let total = count.saturating_mul(if is_whole { 1 } else { extent.values });
        if !is_whole && (total > MAX_FILLED || total.saturating_mul(extent.longest) > MAX_BYTES) {
            return Ok(Self { source, waiting: None, total: extent.cells, places: None });
        }
        let values = match &mut source {
            _ if is_whole => vec![Value::default()],
            Source::Stored(cells) => cells.values().await?,
            Source::Loaded(cells) => {
                let mut values: Vec<Value> = cells.as_slice().iter().map(|cell| cell.value.clone()).collect();
                values.sort_unstable();
                values.dedup();
                values
            }
        };
        let places = buckets.filter(|_| total > 0).map(|buckets| Places { buckets, values, next: 0 });
        let places = places.unwrap_or(Places { buckets: RangeInclusive::new(1, 0), values: Vec::new(), next: 0 });
        let waiting = source.next().await?;
        Ok(Self { source, waiting, total, places: Some(places) })
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.places.is_some()
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

impl Rows for FilledSeries {
    type Row = Cell;

    async fn next(&mut self) -> Result<Option<Cell>, ApiError> {
        let Some(places) = &mut self.places else { return self.source.next().await };
        let Some((bucket, value)) = places.next() else {
            return match self.waiting {
                Some(_) => Err(ApiError::internal(anyhow::anyhow!("a cell is outside the series"))),
                None => Ok(None),
            };
        };
        let is_here = self.waiting.as_ref().is_some_and(|cell| cell.bucket == bucket && cell.value == *value);
        if !is_here {
            return Ok(Some(Cell { bucket, value: value.clone(), ..Cell::default() }));
        }
        let here = self.waiting.take();
        self.waiting = self.source.next().await?;
        Ok(here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(bucket: i64, name: &str, events: u64) -> Cell {
        Cell { bucket, value: (false, String::new(), name.to_owned()), events, ..Cell::default() }
    }

    async fn filled_items(
        buckets: Option<RangeInclusive<i64>>,
        is_whole: bool,
        extent: Extent,
        cells: Vec<Cell>,
    ) -> Option<(bool, Vec<Cell>)> {
        let mut filled = FilledSeries::begin(buckets, is_whole, extent, Source::Loaded(cells.into_iter())).await.ok()?;
        let mut items = Vec::new();
        while let Some(cell) = filled.next().await.ok()? {
            items.push(cell);
        }
        assert_eq!(items.len() as u64, filled.total());
        Some((filled.is_filled(), items))
    }

    fn extent(values: u64, cells: u64) -> Extent {
        Extent { values, cells, ..Extent::default() }
    }

    #[tokio::test]
    async fn fills_every_value_in_every_bucket() {
        let cells = vec![cell(3, "b", 7), cell(4, "a", 1), cell(4, "b", 2)];
        let items = filled_items(Some(2..=4), false, extent(2, 3), cells).await.unwrap();
        let expected = [cell(2, "a", 0), cell(2, "b", 0), cell(3, "a", 0), cell(3, "b", 7), cell(4, "a", 1), cell(4, "b", 2)];
        assert_eq!(items, (true, expected.to_vec()));
    }

    #[tokio::test]
    async fn unsplit_series_have_every_bucket() {
        let filled = filled_items(Some(1..=3), true, extent(0, 0), Vec::new()).await.unwrap();
        assert_eq!(filled, (true, vec![cell(1, "", 0), cell(2, "", 0), cell(3, "", 0)]));
        assert_eq!(filled_items(Some(1..=3), false, extent(0, 0), Vec::new()).await.unwrap(), (true, Vec::new()));
        assert_eq!(filled_items(None, true, extent(0, 0), Vec::new()).await.unwrap(), (true, Vec::new()));
    }

    #[tokio::test]
    async fn large_series_omit_zeros() {
        let cells = vec![cell(1, "a", 1), cell(9, "b", 1)];
        let many = filled_items(Some(0..=MAX_FILLED.cast_signed()), false, extent(2, 2), cells.clone()).await.unwrap();
        assert_eq!(many, (false, cells.clone()));
        let long = Extent { longest: MAX_BYTES / 20 + 1, ..extent(2, 2) };
        assert_eq!(filled_items(Some(0..=9), false, long, cells.clone()).await.unwrap(), (false, cells));
    }

    #[tokio::test]
    async fn cells_outside_the_series_are_errors() {
        assert_eq!(filled_items(Some(1..=2), true, extent(1, 1), vec![cell(3, "", 1)]).await, None);
        assert_eq!(filled_items(Some(1..=2), false, extent(2, 2), vec![cell(2, "b", 1), cell(1, "a", 1)]).await, None);
    }
}
