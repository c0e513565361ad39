//! 6 STORE: one insert is one block, retried until ClickHouse acknowledges it.
//!
//! Must send the same rows under the same token on every try, must never give up, and must never cut a record in two:
//! the partition waits, and nothing is skipped however long ClickHouse refuses.

pub(crate) mod keep;
pub(crate) mod bulk_loader;
mod refusal;
mod shards;
#[cfg(test)]
mod tests;

use crate::consume::Offsets;
use crate::consume::partition_stats::CountsByPartition;
use crate::metrics;
use crate::record::fold::Folded;
use crate::record::row::ObservationRow;
use crate::resolve::back_off::BackOff;
use anyhow::{Context, bail};
use clickhouse::error::Error;
use clickhouse::{Row, RowWrite};
use data_encoding::HEXLOWER;
pub(crate) use refusal::Refusal;
use refusal::{fix, in_one_line};
use schemas::store::OBSERVATIONS;
use service_kit::clock::Clock;
use service_kit::settings::ClickHouseSettings;
use service_kit::stores;
use sha2::{Digest, Sha256};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use uuid::Uuid;

const INSERT_DEADLINE: Duration = Duration::from_secs(30);
/// What merges get before the next insert, when there are too many parts.
const CROWDED_PAUSE: Duration = Duration::from_secs(1);
/// How often a block that needs too much memory is tried whole: the memory may be somebody else's, and soon free.
const TRIES_WHOLE: u32 = 3;
/// As `nice` counts: how far inserts in the background stand back.
const BACKGROUND_NICENESS: &str = "10";
/// A refusal is said again after so many tries.
const SAID_EVERY: u32 = 20;

/// The table of observations.
pub(crate) struct Store {
    /// One for each shard, in the order of their numbers.
    clients: Vec<clickhouse::Client>,
    clock: Clock,
    /// So many rows were too many for the memory lately: a block of that size is cut when it is refused once.
    too_many_rows: AtomicUsize,
    /// Part of every token.
    salt: Uuid,
    /// Whether it reads the log from where all shards have it, and so raises the high watermark of several.
    raises_watermark: bool,
}

impl Store {
    pub(crate) fn connect(settings: &ClickHouseSettings, clock: Clock) -> anyhow::Result<Self> {
        let clients = stores::clickhouse_shards(settings)?;
        Ok(Self { clients, clock, too_many_rows: AtomicUsize::new(usize::MAX), salt: Uuid::nil(), raises_watermark: true })
    }

    /// One whose blocks ClickHouse takes for new whatever it remembers: it may remember rows that it has lost since.
    pub(crate) fn anew(self) -> Self {
        Self { salt: Uuid::new_v4(), ..self }
    }

    /// One that reads the log from anywhere.
    pub(crate) fn below_watermark(self) -> Self {
        Self { raises_watermark: false, ..self }
    }

    /// One whose inserts give way to everybody else's work where ClickHouse may do that (it needs CAP_SYS_NICE).
    pub(crate) fn in_background(self) -> Self {
        let nice = |client: clickhouse::Client| client.with_setting("os_threads_nice_value_query", BACKGROUND_NICENESS);
        Self { clients: self.clients.into_iter().map(nice).collect(), ..self }
    }

    /// Refuses a table that lacks a column of this build.
    pub(crate) async fn check_columns(&self) -> anyhow::Result<()> {
        let statement = "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = ?";
        for client in &self.clients {
            let found: Vec<String> = client
                .query(statement)
                .bind(OBSERVATIONS)
                .fetch_all()
                .await
                .context("CLICKHOUSE_URL: the columns cannot be listed")?;
            if let Some(name) = ObservationRow::COLUMN_NAMES.iter().find(|name| !found.iter().any(|found| found == *name)) {
                bail!(
                    "table {OBSERVATIONS} has no column {name}; run `telemetry stream-workers prepare`, or add it as schemas/clickhouse/observations.sql has it"
                )
            }
        }
        Ok(())
    }

    /// Inserts a block that came from these offsets; returns once every row is readable, with what became of each
    /// partition's.
    pub(crate) async fn insert(&self, folded: Folded, offsets: &Offsets) -> CountsByPartition {
        let (mut waiting, mut stored) = (vec![folded], CountsByPartition::default());
        while let Some(portion) = waiting.pop() {
            if let Some([older, newer]) = self.insert_or_cut(portion, offsets, &mut stored).await {
                waiting.extend([newer, older]);
            }
        }
        if self.raises_watermark {
            shards::raise_watermark(&self.clients, offsets).await;
        }
        stored
    }

    /// Tries until the portion is in; answers its halves instead when ClickHouse lacks the memory for all of it.
    async fn insert_or_cut(&self, mut folded: Folded, offsets: &Offsets, stored: &mut CountsByPartition) -> Option<[Folded; 2]> {
        if folded.rows.is_empty() {
            return None;
        }
        let (token, started, mut back_off) = (self.token(offsets, &folded.rows), Instant::now(), BackOff::default());
        let mut before = None;
        for tries in 1_u32.. {
            let Err(error) = self.try_insert(&folded.rows, &token).await else { break };
            let refusal = Refusal::of(&error);
            metrics::retried(refusal.name());
            if before.replace(refusal) != Some(refusal) || tries.is_multiple_of(SAID_EVERY) {
                say(refusal, &error, folded.rows.len());
            }
            metrics::stopped(refusal == Refusal::Lasting);
            let rows = folded.rows.len();
            if refusal == Refusal::TooLarge && (tries >= TRIES_WHOLE || rows >= self.too_many_rows.load(Ordering::Relaxed)) {
                self.too_many_rows.store(rows, Ordering::Relaxed);
                match folded.halved() {
                    Ok(halves) => return Some(halves),
                    Err(whole) => folded = whole,
                }
            }
            // A table that was mended may have other columns.
            for client in &self.clients {
                client.clear_cached_metadata().await;
            }
            match refusal {
                Refusal::Crowded => back_off.pause_at_least(CROWDED_PAUSE).await,
                _ => back_off.pause().await,
            }
        }
        if before.is_some() {
            tracing::info!(rows = folded.rows.len(), "ClickHouse takes rows again");
        }
        metrics::stopped(false);
        folded.rows.iter().for_each(|row| stored.of(row.partition).inserted += 1);
        folded.repeats.iter().for_each(|row| stored.of(row.partition).folded += 1);
        metrics::inserted(&folded, self.clock.now().timestamp_micros(), started.elapsed());
        None
    }

    /// Names a block by where it came from and what is in it: a block cut anew after a rebalance has another token,
    /// so that it is never mistaken for an old one and dropped.
    fn token(&self, offsets: &Offsets, folded: &[ObservationRow]) -> String {
        let mut digest = Sha256::new_with_prefix(self.salt);
        for (partition, (first, last)) in offsets {
            digest.update(partition.to_be_bytes());
            digest.update(first.to_be_bytes());
            digest.update(last.to_be_bytes());
        }
        for row in folded {
            // at one go: a call costs as much as the bytes
            let mut bytes = [row.observer; 41];
            bytes[..16].copy_from_slice(&row.event_key.to_be_bytes());
            bytes[16..32].copy_from_slice(row.org_id.as_bytes());
            bytes[32..40].copy_from_slice(&row.version.to_be_bytes());
            digest.update(bytes);
        }
        let bytes: [u8; 32] = digest.finalize().into();
        HEXLOWER.encode(&bytes[..16])
    }

    async fn try_insert(&self, rows: &[ObservationRow], token: &str) -> Result<(), Error> {
        let insert = async {
            match &self.clients[..] {
                [only] => insert_into::<ObservationRow>(only, rows, token).await,
                several => shards::insert(several, rows, token).await,
            }
        };
        tokio::time::timeout(INSERT_DEADLINE, insert).await.map_err(|_| Error::TimedOut)?
    }
}

async fn insert_into<R: RowWrite>(client: &clickhouse::Client, rows: &[R::Value<'_>], token: &str) -> Result<(), Error> {
    let mut insert = client
        .insert::<R>(OBSERVATIONS)
        .await?
        // On by default; it would answer before the rows are durable and cut blocks anew.
        .with_setting("async_insert", "0")
        .with_setting("insert_deduplication_token", token)
        // Defaults, which no server may change: the index has every row once the insert is answered, and each once.
        .with_setting("deduplicate_blocks_in_dependent_materialized_views", "1")
        .with_setting("materialized_views_ignore_errors", "0")
        .with_setting("parallel_view_processing", "0");
    for row in rows {
        insert.write(row).await?;
    }
    insert.end().await
}

fn say(refusal: Refusal, error: &Error, rows: usize) {
    let said = in_one_line(error);
    match refusal {
        Refusal::Passing => tracing::error!(rows, "insert failed, trying again: {said}"),
        Refusal::Crowded => tracing::warn!(rows, "too many parts, inserting more slowly: {said}"),
        Refusal::TooLarge => tracing::warn!(rows, "too little memory for this block, trying again and then in halves: {said}"),
        Refusal::Lasting => {
            tracing::error!(
                rows,
                "ClickHouse refuses rows until this is mended; the partitions wait and nothing is skipped; {}: {said}",
                fix(error)
            );
        }
    }
}
