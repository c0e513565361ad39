//! How long dead letters and observations are kept; both for ever, unless the operator says otherwise. `prepare` puts it into
//! the topic and the table, and from then on the broker and ClickHouse delete by themselves.
//!
//! Must not shorten what is kept unasked: a setting that is not there leaves topic and table as they are.

use anyhow::Context;
use clap::Args;
use schemas::store::OBSERVATIONS;
use service_kit::settings::{ClickHouseSettings, KafkaSettings};
use service_kit::{kafka, stores};
use std::time::Duration;

/// When a report was accepted, as `received_at` derives it; a rule of age cannot go by a column that is not stored.
const ACCEPTED: &str = "toDateTime(fromUnixTimestamp64Micro(toInt64(bitShiftRight(bitNot(version), 12)), 'UTC'))";

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
        let client = stores::clickhouse(clickhouse)?;
        let question = "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = ?";
        let table: String = client.query(question).bind(OBSERVATIONS).fetch_one().await?;
        // To alter what is there already would have ClickHouse look at every row again.
        let rule = format!("TTL {ACCEPTED} + toIntervalDay({days})");
        let is_there = table.contains(&format!("toIntervalDay({days})"));
        let statement = match days {
            0 if table.contains(" TTL ") => format!("ALTER TABLE {OBSERVATIONS} REMOVE TTL"),
            1.. if !is_there => format!("ALTER TABLE {OBSERVATIONS} MODIFY {rule}"),
            _ => return Ok(()),
        };
        let altered = client.query(&statement).execute().await;
        altered.with_context(|| format!("TELEMETRY_EVENTS_KEEP={days}: the table cannot be altered; run {statement}"))
    }
}
