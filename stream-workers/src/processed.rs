//! `telemetry stream-workers processed`: shows how much of the log is stored, and its records' outcomes.

use crate::Settings;
use crate::consume::partition_stats::{Counts, PartitionStats, total};
use crate::consume::topic_reader::TopicReader;
use crate::writer::progress_of;
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use service_kit::command_output::{OutputFormat, print_json, print_table};
use service_kit::settings::{ClickHouseSettings, KafkaSettings};
use std::collections::BTreeMap;

/// For each partition of the log, returns its stored progress and its end offset. Without progress, no record of a partition is stored.
///
/// # Errors
///
/// Fails if the topic doesn't exist or a server doesn't respond.
pub async fn progress_by_partition(
    kafka: &KafkaSettings,
    clickhouse: &ClickHouseSettings,
) -> anyhow::Result<BTreeMap<i32, (PartitionStats, i64)>> {
    let parts = TopicReader::open(kafka, &kafka.topic)?.whole().await?;
    ensure!(!parts.is_empty(), "topic {} does not exist: create it with `telemetry stream-workers prepare`", kafka.topic);
    let stored = progress_of(clickhouse, &kafka.topic).await.context("CLICKHOUSE_URL: failed to read the progress table")?;
    let of = |partition: &i32| stored.get(partition).copied().unwrap_or_else(|| PartitionStats::starting_at(0));
    Ok(parts.into_iter().map(|part| (part.partition, (of(&part.partition), part.to))).collect())
}

pub(crate) async fn processed(settings: &Settings, form: OutputFormat) -> anyhow::Result<()> {
    let progress = progress_by_partition(&settings.kafka, &settings.clickhouse).await?;
    match form {
        OutputFormat::Table => print_table(&TITLES, &rows(&progress)),
        OutputFormat::Json => print_json(&document(&progress)),
    }
}

fn document(progress: &BTreeMap<i32, (PartitionStats, i64)>) -> Value {
    let (all, missing) = all_of(progress);
    let partition = |(partition, (stats, end)): (&i32, &(PartitionStats, i64))| {
        let PartitionStats { since, next, counts } = stats;
        json!({"partition": partition, "since": since, "next": next, "end": end, "figures": figures(counts, stats.missing())})
    };
    json!({"partitions": progress.iter().map(partition).collect::<Vec<_>>(), "all": figures(&all, missing)})
}

fn figures(counts: &Counts, missing: u64) -> Value {
    let Counts { records, stored, rejected_records, rejected } = counts;
    json!({"records": records, "missing": missing, "rejected_records": rejected_records, "stored": stored, "rejected": rejected})
}

const TITLES: [&str; 9] =
    ["partition", "since", "next", "end", "records", "missing", "rejected records", "stored events", "rejected events"];

/// Returns a line for each partition and one for all.
fn rows(progress: &BTreeMap<i32, (PartitionStats, i64)>) -> Vec<Vec<String>> {
    let (all, missing) = all_of(progress);
    let partition = |(partition, (stats, end)): (&i32, &(PartitionStats, i64))| {
        let places = [i64::from(*partition), stats.since, stats.next, *end].map(|place| place.to_string());
        row(places, &stats.counts, stats.missing())
    };
    let all = row(["all", "", "", ""].map(str::to_owned), &all, missing);
    progress.iter().map(partition).chain([all]).collect()
}

fn row(places: [String; 4], counts: &Counts, missing: u64) -> Vec<String> {
    let Counts { records, stored, rejected_records, rejected } = *counts;
    places.into_iter().chain([records, missing, rejected_records, stored, rejected].map(|figure| figure.to_string())).collect()
}

fn all_of(progress: &BTreeMap<i32, (PartitionStats, i64)>) -> (Counts, u64) {
    total(progress.values().map(|(stats, _)| stats))
}
