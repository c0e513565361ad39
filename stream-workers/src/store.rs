//! 6 STORE: one insert is one block, retried until ClickHouse acknowledges it.
//!
//! Must send the same rows under the same token on every try, and must never give up: the partition waits.

use crate::back_off::BackOff;
use crate::consume::Block;
use crate::metrics;
use crate::row::ObservationRow;
use schemas::store::OBSERVATIONS;
use service_kit::clock::Clock;
use service_kit::settings::ClickHouseSettings;
use service_kit::stores;
use sha2::{Digest, Sha256};
use std::time::{Duration, Instant};

const INSERT_DEADLINE: Duration = Duration::from_secs(30);

/// The table of observations.
pub(crate) struct Store {
    client: clickhouse::Client,
    clock: Clock,
}

impl Store {
    pub(crate) fn connect(settings: &ClickHouseSettings, clock: Clock) -> anyhow::Result<Self> {
        Ok(Self { client: stores::clickhouse(settings)?, clock })
    }

    /// Inserts folded rows; returns once they are readable.
    pub(crate) async fn insert(&self, rows: &[ObservationRow], token: &str) {
        let Some(oldest_us) = rows.iter().map(ObservationRow::received_at_us).min() else { return };
        let started = Instant::now();
        let mut back_off = BackOff::default();
        while let Err(error) = self.try_insert(rows, token).await {
            metrics::retried();
            tracing::error!(rows = rows.len(), "insert failed, trying again: {error:#}");
            back_off.pause().await;
        }
        let age_us = self.clock.now().timestamp_micros() - oldest_us;
        metrics::inserted(rows.len(), started.elapsed(), Duration::from_micros(u64::try_from(age_us).unwrap_or(0)));
    }

    async fn try_insert(&self, rows: &[ObservationRow], token: &str) -> anyhow::Result<()> {
        let insert = async {
            let mut insert = self
                .client
                .insert::<ObservationRow>(OBSERVATIONS)
                .await?
                // On by default; it would answer before the rows are durable and cut blocks anew.
                .with_setting("async_insert", "0")
                .with_setting("insert_deduplication_token", token);
            for row in rows {
                insert.write(row).await?;
            }
            insert.end().await
        };
        tokio::time::timeout(INSERT_DEADLINE, insert).await??;
        Ok(())
    }
}

/// Names a block by where it came from and what is in it: a block cut anew after a rebalance has another token,
/// so that it is never mistaken for an old one and dropped.
pub(crate) fn token(block: &Block, folded: &[ObservationRow]) -> String {
    let mut digest = Sha256::new();
    for (partition, (first, last)) in &block.offsets {
        digest.update(partition.to_be_bytes());
        digest.update(first.to_be_bytes());
        digest.update(last.to_be_bytes());
    }
    finish(digest, folded)
}

/// Names a block that came from no log by what is in it.
pub(crate) fn token_of_rows(folded: &[ObservationRow]) -> String {
    finish(Sha256::new(), folded)
}

fn finish(mut digest: Sha256, folded: &[ObservationRow]) -> String {
    for row in folded {
        digest.update(row.event_key.to_be_bytes());
        digest.update(row.org_id.as_bytes());
        digest.update([row.observer]);
        digest.update(row.version.to_be_bytes());
    }
    let bytes: [u8; 32] = digest.finalize().into();
    bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
