//! `telemetry stream-workers rebuild`: an empty ClickHouse is filled from the log.
//!
//! Must not begin on a table that holds rows, and must not call a table whole that the log cannot fill.

use crate::consume::topic_reader::TopicReader;
use crate::replay::{Range, ReplayOptions, read_again};
use crate::store::Store;
use crate::{Settings, prepare};
use anyhow::{Context, bail, ensure};
use clap::Args;
use schemas::store::OBSERVATIONS;
use service_kit::clock::Clock;
use service_kit::command::OutputOptions;
use service_kit::settings::ClickHouseSettings;
use service_kit::{kafka, retrieval_index, stores};

/// How to rebuild.
#[derive(Args, Clone, Debug, Default)]
pub struct RebuildOptions {
    /// Rebuild from what is left when the beginning of the log is gone
    #[arg(long)]
    accept_gap: bool,
    #[command(flatten)]
    output: OutputOptions,
}

/// The rows of the tables of all shards; none when there is no table yet, or no database.
async fn rows(settings: &ClickHouseSettings) -> anyhow::Result<u64> {
    let mut rows = 0;
    for shard in settings.each_shard() {
        rows += rows_of(&shard).await?;
    }
    Ok(rows)
}

async fn rows_of(settings: &ClickHouseSettings) -> anyhow::Result<u64> {
    let client = stores::clickhouse(settings)?.with_database("system");
    let rows = client.query("SELECT coalesce(total_rows, 0) FROM tables WHERE database = ? AND name = ?");
    let rows = rows.bind(&settings.clickhouse_database).bind(OBSERVATIONS).fetch_optional().await?;
    Ok(rows.unwrap_or(0))
}

/// Creates the tables and fills them with everything that is on the log. Workers and gateways may run meanwhile.
pub async fn rebuild(settings: &Settings, options: &RebuildOptions, clock: Clock) -> anyhow::Result<()> {
    kafka::check_topics(&settings.kafka).await?;
    let database = &settings.clickhouse.clickhouse_database;
    // Before there is a table: a worker that waits for one inserts into it at once.
    let rows = rows(&settings.clickhouse).await.context("CLICKHOUSE_URL: the rows of the table cannot be counted")?;
    ensure!(
        rows == 0,
        "{database}.{OBSERVATIONS} holds {rows} rows: to read the log again into a table in use, run `telemetry stream-workers replay`; to begin anew, DROP TABLE {database}.{OBSERVATIONS} first"
    );
    // It may have rows of observations that are gone; `prepare` makes it anew, and fills it with what a worker has inserted.
    for shard in settings.clickhouse.each_shard() {
        retrieval_index::discard(&shard).await.context("CLICKHOUSE_URL: the index cannot be dropped")?;
    }
    stores::forget_watermarks(&settings.clickhouse).await?;
    prepare(settings).await?;
    stores::check_clickhouse(&settings.clickhouse).await?;
    let range = Range::find(&TopicReader::open(&settings.kafka, &settings.kafka.topic)?, None, None).await?;
    for (partition, first) in &range.gaps {
        if !options.accept_gap {
            bail!(
                "partition {partition} of the log begins at offset {first}, so what came before cannot be rebuilt; add --accept-gap to rebuild the rest"
            );
        }
        eprintln!("partition {partition} of the log begins at offset {first}: what came before is gone");
    }
    let store = Store::connect(&settings.clickhouse, clock.clone())?;
    let observations = read_again(settings, &ReplayOptions::whole(options.output), (&range, store), clock).await?;
    eprintln!("{database}.{OBSERVATIONS} is rebuilt: {observations} observations");
    Ok(())
}
