//! `telemetry stream-workers rebuild`: fills an empty database from the log.
//!
//! Runs a writer with its own `writers` and `progress`, and stops it when everything that was on the log at the start is stored.

use super::range::Range;
use crate::consume::topic_reader::{OffsetRange, TopicReader};
use crate::writer::{progress_of, run_writer};
use crate::{Settings, prepare};
use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde_json::json;
use service_kit::command_output::{OutputFormat, OutputOptions, print_json};
use service_kit::settings::ClickHouseSettings;
use service_kit::{databases, kafka};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Number of polls per line on standard error.
const LOOKS_PER_LINE: u32 = 10;

/// Options of `rebuild`.
#[derive(Args, Clone, Debug, Default)]
pub struct RebuildOptions {
    /// Rebuild although the beginning of the log was deleted
    #[arg(long)]
    accept_gap: bool,
    #[command(flatten)]
    output: OutputOptions,
}

/// Creates the tables in the database of TELEMETRY_CLICKHOUSE_DATABASE and fills them with the whole log. Gateways, and another database's
/// writer, can keep running.
///
/// # Errors
///
/// Fails if the database contains events, or if the beginning of the log is missing and `--accept-gap` isn't set.
pub async fn rebuild(settings: &Settings, options: &RebuildOptions) -> anyhow::Result<()> {
    kafka::check_topics(&settings.kafka).await?;
    prepare(settings).await?;
    require_empty(&settings.clickhouse).await?;
    let range = Range::find(&TopicReader::open(&settings.kafka, &settings.kafka.topic)?, None, None).await?;
    for (partition, first) in &range.gaps {
        if !options.accept_gap {
            bail!(
                "partition {partition} of the log begins at offset {first}, so earlier records can't be rebuilt; add --accept-gap to rebuild the rest"
            );
        }
        eprintln!("partition {partition} of the log begins at offset {first}: earlier records are lost");
    }
    let stop = CancellationToken::new();
    tokio::select! {
        written = run_writer(settings, stop.clone()) => written?,
        stored = until_stored(settings, &range) => stored?,
    }
    report(settings, options.output.format()).await
}

async fn require_empty(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    let count = databases::clickhouse(settings)?.query(include_str!("sql/count_stored.sql")).fetch_one::<(u64, u64)>().await;
    let (events, rows) = count.context("CLICKHOUSE_URL: failed to count the tables' rows")?;
    let database = &settings.clickhouse_database;
    ensure!(
        (events, rows) == (0, 0),
        "{database} has {events} events: rebuild into an empty database and set TELEMETRY_CLICKHOUSE_DATABASE to it; to continue an interrupted rebuild, start a worker on {database}"
    );
    Ok(())
}

/// Returns when the range is stored.
async fn until_stored(settings: &Settings, range: &Range) -> anyhow::Result<()> {
    let all = range.len();
    for looks in 1_u32.. {
        tokio::time::sleep(POLL_INTERVAL).await;
        let stored = match progress_of(&settings.clickhouse, &settings.kafka.topic).await {
            Ok(stored) => stored,
            Err(error) => {
                tracing::warn!("failed to read the rebuild's progress, retrying: {error:#}");
                continue;
            }
        };
        let next = |part: &OffsetRange| stored.get(&part.partition).map_or(0, |stats| stats.next);
        if range.parts.iter().all(|part| part.len() == 0 || next(part) >= part.to) {
            return Ok(());
        }
        if looks.is_multiple_of(LOOKS_PER_LINE) {
            let done: i64 = range.parts.iter().map(|part| next(part).clamp(part.from, part.to) - part.from).sum();
            eprintln!("{done}/{all} records");
        }
    }
    unreachable!("the loop returns when everything is stored")
}

async fn report(settings: &Settings, form: OutputFormat) -> anyhow::Result<()> {
    let client = databases::clickhouse(&settings.clickhouse)?;
    let (events, _) = client.query(include_str!("sql/count_stored.sql")).fetch_one::<(u64, u64)>().await?;
    let database = &settings.clickhouse.clickhouse_database;
    match form {
        OutputFormat::Table => {
            println!("{database} has {events} events; start workers and query-api with TELEMETRY_CLICKHOUSE_DATABASE={database}");
        }
        OutputFormat::Json => print_json(&json!({"database": database, "events": events}))?,
    }
    Ok(())
}
