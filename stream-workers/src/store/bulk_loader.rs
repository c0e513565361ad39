//! Rows without a log: records straight into the table, through the same encoding, fold and insert.
//!
//! Must not be part of the worker's loop: benchmarks fill a store with it, and nothing is committed anywhere.

use crate::consume::Offsets;
use crate::record::fold::fold;
use crate::record::row::ObservationRow;
use crate::store::Store;
use schemas::log::LogRecord;
use service_kit::clock::Clock;
use service_kit::settings::ClickHouseSettings;

/// Read whatever the high watermark.
const FROM_NO_LOG: (i32, i64) = (0, -1);

/// Writes into one table of observations.
pub struct BulkLoader(Store);

impl BulkLoader {
    /// A filler of the tables that these settings name.
    pub fn connect(settings: &ClickHouseSettings) -> anyhow::Result<Self> {
        Ok(Self(Store::connect(settings, Clock::System)?))
    }

    /// Inserts records in which nothing is left to look up, as one block.
    pub async fn insert(&self, records: Vec<LogRecord>) {
        let rows = fold(records.into_iter().flat_map(|record| ObservationRow::of(record, FROM_NO_LOG)).collect());
        self.0.insert(rows, &Offsets::default()).await;
    }
}
