//! Records without a log, through the same merge and the same statements: for benchmarks and tests of the reads.

use super::server::Server;
use super::state::State;
use super::{block, takeover};
use crate::consume::Block;
use crate::record::row::ObservationRow;
use anyhow::Context as _;
use schemas::log::LogRecord;
use service_kit::settings::ClickHouseSettings;
use std::time::Duration;

/// Its rows of `progress`.
const TOPIC: &str = "no log";
/// Partition and offset of its records.
const FROM_NO_LOG: (i32, i64) = (0, -1);
/// There is no standby.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(60);

/// The active writer of a server.
pub struct EventLoader {
    server: Server,
    state: State,
}

impl EventLoader {
    /// Becomes the writer of these tables.
    pub async fn connect(settings: &ClickHouseSettings) -> anyhow::Result<Self> {
        let server = Server::connect(settings)?;
        let epoch = takeover::claim(&server, TOPIC).await?.context("another writer has taken over")?;
        let state = takeover::read_state(&server, epoch, (TOPIC, HEARTBEAT_EVERY)).await?;
        Ok(Self { server, state })
    }

    /// Merges records as one block. Their click tokens and agents must have been looked up.
    pub async fn insert(&mut self, records: Vec<LogRecord>) -> anyhow::Result<()> {
        let rows = records.into_iter().flat_map(|record| ObservationRow::of(record, FROM_NO_LOG)).collect();
        let mut block = Block::default();
        block.rows = rows;
        Ok(block::write(block, (&mut self.state, &self.server, TOPIC)).await?)
    }
}
