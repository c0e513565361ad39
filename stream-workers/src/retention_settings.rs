//! Retention of events and dead letters. Unlimited unless the operator sets a number of days.

use clap::Args;
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use std::time::Duration;

/// Retention settings. `prepare` applies the one for dead letters to their topic; the active writer applies the one for events.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct RetentionSettings {
    /// Days to keep dead letters [default: unchanged; `prepare` creates the topic without a limit]
    #[arg(long, env = "TELEMETRY_REJECTED_KEEP", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub rejected_keep: Option<u32>,
    /// Days to keep a month of events after its last report was accepted; 0: forever [default: 0]
    #[arg(long, env = "TELEMETRY_EVENTS_KEEP", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(0..=36_500))]
    pub events_keep: Option<u32>,
}

impl RetentionSettings {
    /// Sets the retention of dead letters, if configured.
    pub(crate) async fn apply(self, kafka: &KafkaSettings) -> anyhow::Result<()> {
        let Some(days) = self.rejected_keep else { return Ok(()) };
        let keep = Duration::from_secs(u64::from(days) * 86_400);
        kafka::set_retention(kafka, &kafka.rejected_topic, keep).await
    }
}
