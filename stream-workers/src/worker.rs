//! The loop: block, resolve, fold, dead letters, insert, commit; in this order and no other.
//!
//! Must not know how any of the steps is done.

use crate::Settings;
use crate::consume::{Block, Collector};
use crate::fold::fold;
use crate::metrics;
use crate::rejected::RejectedTopic;
use crate::resolve::Resolver;
use crate::store::{Store, token};
use service_kit::clock::Clock;
use service_kit::crash_point;
use tokio_util::sync::CancellationToken;

/// One member of the group.
pub(crate) struct Worker {
    collector: Collector,
    resolver: Resolver,
    rejected: RejectedTopic,
    store: Store,
}

impl Worker {
    pub(crate) fn connect(settings: &Settings) -> anyhow::Result<Self> {
        Ok(Self {
            resolver: Resolver::connect(&settings.postgres)?,
            rejected: RejectedTopic::connect(&settings.kafka)?,
            store: Store::connect(&settings.clickhouse, Clock::System)?,
            collector: Collector::connect(settings)?,
        })
    }

    /// Works until `stop`. A block in hand is abandoned then: it was not committed, and the next owner of its
    /// partitions reads it again.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> anyhow::Result<()> {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.work() => {}
        }
        self.collector.leave().await;
        Ok(())
    }

    async fn work(&mut self) {
        loop {
            let block = self.collector.block().await;
            if !block.is_empty() {
                self.process(block).await;
            }
        }
    }

    async fn process(&mut self, mut block: Block) {
        if !block.unresolved.is_empty() {
            tokio::select! {
                () = self.resolver.resolve(&mut block) => {}
                () = self.collector.keep_polling() => {}
            }
        }
        let events = block.rows.len();
        let folded = fold(std::mem::take(&mut block.rows));
        metrics::folded(events - folded.len());
        let token = token(&block, &folded);
        let store = async {
            self.rejected.send_all(&block.dead_letters).await;
            crash_point::reached("before_insert");
            self.store.insert(&folded, &token).await;
        };
        tokio::select! {
            () = store => {}
            () = self.collector.keep_polling() => {}
        }
        crash_point::reached("after_insert_before_commit");
        self.collector.commit(&block.offsets).await;
        crash_point::reached("after_commit");
    }
}
