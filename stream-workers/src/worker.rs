//! The loop: block, sessions, resolve, fold, dead letters, insert, commit; in this order and no other.
//!
//! Must not know how any of the steps is done.

mod compaction;
pub(crate) mod log_status;
pub(crate) mod session_writer;

use crate::Settings;
use crate::consume::{Block, Collector, Lag};
use crate::dead_letters::RejectedTopic;
use crate::metrics;
use crate::record::fold::fold;
use crate::resolve::Resolver;
use crate::store::Store;
use compaction::Compaction;
use log_status::Teller;
use service_kit::clock::Clock;
use service_kit::crash_point;
use service_kit::settings::ClickHouseSettings;
use service_kit::stores;
use session_writer::SessionWriter;
use std::convert::Infallible;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// One member of the group.
pub(crate) struct Worker {
    collector: Collector,
    sessions: SessionWriter,
    resolver: Resolver,
    rejected: RejectedTopic,
    store: Store,
    standing: Teller,
    clickhouse: ClickHouseSettings,
}

impl Worker {
    pub(crate) fn connect(settings: &Settings) -> anyhow::Result<Self> {
        let (collector, pool) = (Collector::connect(settings)?, stores::postgres(&settings.postgres)?);
        Ok(Self {
            sessions: SessionWriter::new(pool.clone(), Clock::System),
            resolver: Resolver::on(pool),
            rejected: RejectedTopic::connect(&settings.kafka)?,
            store: Store::connect(&settings.clickhouse, Clock::System)?,
            standing: Teller::of(settings, collector.assigned())?,
            clickhouse: settings.clickhouse.clone(),
            collector,
        })
    }

    /// Works until `stop`. A block in hand is abandoned then: it was not committed, and the next owner of its
    /// partitions reads it again.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        let (lag, standing) = (self.collector.lag(), self.standing.clone());
        let compactions = Compaction::of_each_shard(&self.clickhouse)?;
        let ended = tokio::select! {
            () = stop.cancelled() => Ok(()),
            ended = self.work() => ended.map(|never| match never {}),
            () = tell(&lag) => Ok(()),
            () = standing.tell() => Ok(()),
            never = compaction::work(compactions) => match never {},
        };
        self.collector.leave().await;
        ended
    }

    async fn work(&mut self) -> anyhow::Result<Infallible> {
        loop {
            let block = self.collector.block().await?;
            if !block.is_empty() {
                self.process(block).await?;
            }
        }
    }

    async fn process(&mut self, mut block: Block) -> anyhow::Result<()> {
        if block.asks_postgres() {
            let sessions = block.take_unwritten_sessions();
            let resolve = async {
                self.sessions.write(&sessions).await;
                self.resolver.resolve(&mut block).await;
            };
            tokio::select! {
                () = resolve => {}
                lost = self.collector.keep_polling() => match lost? {},
            }
        }
        let folded = fold(std::mem::take(&mut block.rows));
        let store = async {
            self.rejected.send_all(&block.dead_letters).await;
            crash_point::reached("before_insert");
            self.store.insert(folded, &block.offsets).await
        };
        block.tally += tokio::select! {
            stored = store => stored,
            lost = self.collector.keep_polling() => match lost? {},
        };
        crash_point::reached("after_insert_before_commit");
        self.collector.commit(&block.offsets, &block.tally).await;
        crash_point::reached("after_commit");
        Ok(())
    }
}

/// Tells how far behind the worker is, also while it waits. Never ends.
async fn tell(lag: &Lag) {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    loop {
        second.tick().await;
        metrics::lag(lag.at(Clock::System.now().timestamp_millis()));
    }
}
