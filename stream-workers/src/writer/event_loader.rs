//! Inserts records without a log, with the same merge and statements, for benchmarks and tests of reads.

use super::batch::Records;
use super::state::State;
use super::statements::Server;
use super::store_block::Destination;
use super::{store_block, takeover};
use crate::consume::Block;
use crate::record::new_report::NewReport;
use anyhow::Context as _;
use schemas::log::LogRecord;
use schemas::shard::Shard;
use service_kit::settings::ClickHouseSettings;
use std::time::Duration;
use store::report::Home;
use store::tables::FailedFetchRow;

const TOPIC: &str = "no log";
const FROM_NO_LOG: (i32, i64) = (0, -1);
/// There is no standby.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(60);

pub struct EventLoader {
    server: Server,
    state: State,
}

impl EventLoader {
    pub async fn connect(settings: &ClickHouseSettings) -> anyhow::Result<Self> {
        Self::connect_shard(settings, Shard::default()).await
    }

    /// Becomes the writer of a shard's tables. Stores only its part of the records.
    pub async fn connect_shard(settings: &ClickHouseSettings, shard: Shard) -> anyhow::Result<Self> {
        let server = Server::of_shard(settings, shard)?;
        let epoch = takeover::claim(&server, TOPIC, TOPIC).await?.context("another writer has taken over")?;
        let state = takeover::read_state(&server, (epoch, Home(0)), (TOPIC, HEARTBEAT_EVERY)).await?;
        Ok(Self { server, state })
    }

    /// Merges records as one block. Their click tokens and agents must be resolved.
    pub async fn insert(&mut self, records: Vec<LogRecord>) -> anyhow::Result<()> {
        let mut block = Block::default();
        for mut record in records {
            block.failed_fetches.extend(FailedFetchRow::take_from(&mut record));
            block.reports.extend(NewReport::from_record(record, FROM_NO_LOG));
        }
        let destination = Destination { server: &self.server, topic: TOPIC, heartbeat_interval: HEARTBEAT_EVERY };
        Ok(store_block::write(block, Records::default(), (&mut self.state, destination)).await?)
    }
}
