//! The table that the reads of content owners count from: what it must be, how it is filled and how it is compacted
//! (docs/operating/reads.md).
//!
//! Must never take a report out of the table that is in no other row of it.

mod compaction;
mod fill;

pub use compaction::{Attempt, Base, Compactor, Covered, DeltaPart, STEP_ROWS};
pub use fill::{delta_of, fill};

use crate::connections;
use crate::settings::ClickHouseSettings;
use anyhow::ensure;
use schemas::store::{OBSERVATIONS, RETRIEVAL_INDEX, RETRIEVAL_INDEX_COMPLETE, RETRIEVAL_INDEX_DELTA};

/// What every statement on the table goes by: all of its reads see the same parts, and a row that an index would pass over still
/// replaces an older one.
pub const READ_SETTINGS: [(&str, &str); 3] =
    [("enable_materialized_cte", "1"), ("enable_shared_storage_snapshot_in_query", "1"), ("use_skip_indexes_if_final", "0")];

/// A client whose statements go by [`READ_SETTINGS`].
pub fn client(settings: &ClickHouseSettings) -> anyhow::Result<clickhouse::Client> {
    let client = connections::clickhouse(settings)?;
    Ok(READ_SETTINGS.iter().fold(client, |client, (name, value)| client.with_setting(*name, *value)))
}

/// The table as ClickHouse describes it: engine, version and keys, and which views `observations` feeds.
const DESCRIPTION: &str = "SELECT engine, create_table_query, sorting_key, partition_key, comment, \
        (SELECT any(dependencies_table) FROM system.tables WHERE database = currentDatabase() AND name = ?) AS views \
    FROM system.tables WHERE database = currentDatabase() AND name = ?";

#[derive(clickhouse::Row, serde::Deserialize)]
struct Description {
    engine: String,
    create_table_query: String,
    sorting_key: String,
    partition_key: String,
    comment: String,
    views: Vec<String>,
}

impl Description {
    fn has_our_keys(&self, key: &str) -> bool {
        let Self { engine, create_table_query, sorting_key, partition_key, .. } = self;
        let is_versioned =
            create_table_query.contains(&format!("{engine}(revision)")) || create_table_query.contains(", revision)");
        engine.ends_with("ReplacingMergeTree") && is_versioned && sorting_key == key && partition_key == "tier"
    }
}

/// Refuses a store whose index would not count every report, and each once.
pub(crate) async fn check(settings: &ClickHouseSettings, key: &str) -> anyhow::Result<()> {
    let asked = connections::clickhouse(settings)?.query(DESCRIPTION).bind(OBSERVATIONS).bind(RETRIEVAL_INDEX);
    let found: Option<Description> =
        asked.fetch_optional().await.map_err(|error| connections::absent_clickhouse(settings, &error))?;
    let fix = "run `telemetry stream-workers prepare`";
    let Some(found) = found else {
        anyhow::bail!("table {RETRIEVAL_INDEX} does not exist: create it with `telemetry stream-workers prepare`");
    };
    ensure!(
        found.has_our_keys(key),
        "table {RETRIEVAL_INDEX}: engine or keys are not those of this build, so reads would count wrongly; DROP it and {RETRIEVAL_INDEX_DELTA}, then {fix}"
    );
    ensure!(
        found.views.iter().any(|view| view == RETRIEVAL_INDEX_DELTA),
        "view {RETRIEVAL_INDEX_DELTA} of {OBSERVATIONS} does not exist, so reads would miss new reports; DROP TABLE {RETRIEVAL_INDEX}, then {fix}"
    );
    for column in ["`moved` UInt8 MATERIALIZED", "`shape` LowCardinality(String) MATERIALIZED"] {
        ensure!(found.create_table_query.contains(column), "table {RETRIEVAL_INDEX} has no column {column}; {fix}");
    }
    ensure!(
        found.comment.starts_with(RETRIEVAL_INDEX_COMPLETE),
        "table {RETRIEVAL_INDEX} does not have every observation yet; {fix}, again if it was ended before it was done"
    );
    Ok(())
}

/// Drops the index and its view where they are; whoever makes them anew fills them ([`fill`]).
pub async fn discard(settings: &ClickHouseSettings) -> Result<(), clickhouse::error::Error> {
    let database = &settings.clickhouse_database;
    let server =
        connections::clickhouse(settings).map_err(|error| clickhouse::error::Error::Other(error.into()))?.with_database("system");
    let found = server.query("SELECT name FROM tables WHERE database = ? AND name IN (?, ?) ORDER BY name DESC");
    let found: Vec<String> = found.bind(database).bind(RETRIEVAL_INDEX_DELTA).bind(RETRIEVAL_INDEX).fetch_all().await?;
    for name in found {
        server.query(&format!("DROP TABLE {database}.{name} SYNC")).execute().await?;
    }
    Ok(())
}
