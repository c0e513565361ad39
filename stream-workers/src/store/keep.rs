//! How long dead letters and observations are kept; both for ever, unless the operator says otherwise. `prepare` puts it into
//! the topic and the table, and from then on the broker and ClickHouse delete by themselves.
//!
//! Must not shorten what is kept unasked: a setting that is not there leaves topic and table as they are.

use anyhow::Context;
use clap::Args;
use schemas::store::{OBSERVATIONS, RETRIEVAL_INDEX};
use service_kit::settings::{ClickHouseSettings, KafkaSettings};
use service_kit::{kafka, stores};
use std::time::Duration;

/// When a report was accepted, as `received_at` derives it; a rule of age cannot go by a column that is not stored.
const ACCEPTED: &str = "toDateTime(fromUnixTimestamp64Micro(toInt64(bitShiftRight(bitNot(version), 12)), 'UTC'))";

/// When the last report of a row of the index was accepted. Goes by the last, so that no rule takes a row before it takes the
/// one that it has replaced; the row that says which compaction was the last stays.
const LAST_ACCEPTED: &str =
    "toDateTime(fromUnixTimestamp64Micro(toInt64(bitShiftRight(arrayMax(arrayPushBack(others.received, received)), 12)), 'UTC'))";

/// How long things are kept; `prepare` applies it.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Keep {
    /// Days that dead letters stay on their topic, and so can be put back [default: as the topic is, which is made for ever]
    #[arg(long, env = "TELEMETRY_REJECTED_KEEP", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub rejected_keep: Option<u32>,
    /// Days after its report was accepted that an observation leaves ClickHouse; 0: never, also where it was set before [default:
    /// as the table is, which is made for ever]
    #[arg(long, env = "TELEMETRY_EVENTS_KEEP", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub events_keep: Option<u32>,
}

impl Keep {
    /// Puts it into the topic and the table.
    pub(crate) async fn apply(self, kafka: &KafkaSettings, clickhouse: &ClickHouseSettings) -> anyhow::Result<()> {
        if let Some(days) = self.rejected_keep {
            let keep = Duration::from_secs(u64::from(days) * 86_400);
            kafka::set_retention(kafka, &kafka.rejected_topic, keep).await?;
        }
        let Some(days) = self.events_keep else { return Ok(()) };
        for shard in &clickhouse.each_shard() {
            keep_rows(shard, OBSERVATIONS, (ACCEPTED, ""), days).await?;
            keep_rows(shard, RETRIEVAL_INDEX, (LAST_ACCEPTED, " DELETE WHERE site != ''"), days).await?;
        }
        Ok(())
    }
}

/// Puts it into a table whose rows were accepted when `accepted` says, as far as they are meant.
async fn keep_rows(
    clickhouse: &ClickHouseSettings,
    table: &str,
    (accepted, meant): (&str, &str),
    days: u32,
) -> anyhow::Result<()> {
    let client = stores::clickhouse(clickhouse)?;
    let question = "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = ?";
    let definition: String = client.query(question).bind(table).fetch_one().await?;
    // To alter what is there already would have ClickHouse look at every row again.
    let rule = format!("TTL {accepted} + toIntervalDay({days}){meant}");
    let is_there = definition.contains(&format!("toIntervalDay({days})"));
    let statement = match days {
        0 if definition.contains(" TTL ") => format!("ALTER TABLE {table} REMOVE TTL"),
        1.. if !is_there => format!("ALTER TABLE {table} MODIFY {rule}"),
        _ => return Ok(()),
    };
    let altered = client.query(&statement).execute().await;
    altered.with_context(|| format!("TELEMETRY_EVENTS_KEEP={days}: the table cannot be altered; run {statement}"))
}
