//! Reads all tenants and the tables repeatedly during faults.

use super::read_counts::ReadCounts;
use super::reader::Reader;
use super::sender::LoadState;
use super::table_checks::TableChecks;
use crate::client::Endpoint;
use crate::drive::lock;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

const ROUND: Duration = Duration::from_secs(1);
/// Time limit until all acknowledged events are readable, once the log has been processed.
pub(super) const QUIESCE_PATIENCE: Duration = Duration::from_secs(300);
const ASK_AGAIN: Duration = Duration::from_millis(250);

pub(super) const TABLE: &str = "clickhouse";
/// Name of the check for keys that have two rows after a takeover.
pub(super) const TAKEOVER: &str = "takeover";

pub(super) struct ReadLoop {
    pub(super) front: Arc<LoadState>,
    pub(super) readers: Vec<Reader>,
    pub(super) table: TableLoop,
}

pub(super) struct TableLoop {
    pub(super) raw: TableChecks,
    pub(super) watched: ReadCounts,
}

impl ReadLoop {
    pub(super) fn new(front: &Arc<LoadState>, queries: &[Endpoint], raw: TableChecks) -> Self {
        let is_one_moment = raw.shards() == 1;
        let readers = (0..front.tenants.len()).map(|tenant| Reader::new(front, queries, tenant, is_one_moment)).collect();
        Self { front: Arc::clone(front), readers, table: TableLoop { raw, watched: ReadCounts::default() } }
    }

    pub(super) fn watched(&self) -> ReadCounts {
        ReadCounts::total(self.readers.iter().map(|reader| &reader.watched).chain([&self.table.watched]))
    }

    /// Reads every second until `stop`. Tenants are read concurrently, so a slow one doesn't delay the others.
    pub(super) async fn keep_watching(mut self, stop: CancellationToken) -> anyhow::Result<Self> {
        let mut reading = JoinSet::new();
        for reader in self.readers.drain(..) {
            reading.spawn(keep_reading(reader, stop.clone()));
        }
        self.table.keep_looking(&self.front, &stop).await;
        while let Some(reader) = reading.join_next().await {
            self.readers.push(reader?);
        }
        self.readers.sort_by_key(|reader| reader.tenant);
        Ok(self)
    }

    /// Waits until all acknowledged events are readable. Returns false if that takes longer than [`QUIESCE_PATIENCE`].
    pub(super) async fn wait_until_caught_up(&mut self) -> bool {
        let begun = Instant::now();
        for reader in &mut self.readers {
            while !reader.is_caught_up().await {
                if begun.elapsed() > QUIESCE_PATIENCE {
                    return false;
                }
                sleep(ASK_AGAIN).await;
            }
        }
        true
    }
}

async fn keep_reading(mut reader: Reader, stop: CancellationToken) -> Reader {
    while !stop.is_cancelled() {
        let next = Instant::now() + ROUND;
        reader.read_all_surfaces().await;
        let seen = lock(&reader.front.oracle).seen();
        reader.watched.rounds += 1;
        reader.watched.grown.push((Instant::now(), seen));
        pause(next, &stop).await;
    }
    reader
}

impl TableLoop {
    async fn keep_looking(&mut self, front: &LoadState, stop: &CancellationToken) {
        while !stop.is_cancelled() {
            let next = Instant::now() + ROUND;
            let looked = self.raw.check_recent_requests(front).await;
            self.watched.count(TABLE, looked.is_some());
            for is_checked in self.raw.check_after_takeovers(front).await {
                self.watched.count(TAKEOVER, is_checked);
            }
            self.watched.rounds += 1;
            pause(next, stop).await;
        }
    }
}

async fn pause(until: Instant, stop: &CancellationToken) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = sleep_until(until) => {}
    }
}
