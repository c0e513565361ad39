//! How reports get into the store: through a writer in this process, or through the log and worker processes.

use super::through_log::ThroughLog;
use crate::options::ReadBenchOptions;
use crate::stage::FreshStores;
use schemas::log::LogRecord;
use stream_workers::EventLoader;

/// The way into the store.
pub(super) enum Filler {
    Writer(Box<EventLoader>),
    Log(Box<ThroughLog>),
}

impl Filler {
    /// Starts what these options ask for.
    pub(super) async fn start(options: &ReadBenchOptions, stores: &FreshStores, name: &str) -> anyhow::Result<Self> {
        if options.through_log {
            return Ok(Self::Log(Box::new(ThroughLog::start(options, stores, name).await?)));
        }
        Ok(Self::Writer(Box::new(EventLoader::connect(&stores.addresses.clickhouse).await?)))
    }

    /// Hands over one block.
    pub(super) async fn insert(&mut self, records: Vec<LogRecord>) -> anyhow::Result<()> {
        match self {
            Self::Writer(loader) => loader.insert(records).await,
            Self::Log(log) => log.publish(records).await,
        }
    }

    /// Waits until everything that was handed over is stored.
    pub(super) async fn finish(&self) -> anyhow::Result<()> {
        match self {
            Self::Writer(_) => Ok(()),
            Self::Log(log) => log.until_stored().await,
        }
    }

    /// Stops processes of its own.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        match self {
            Self::Writer(_) => Ok(()),
            Self::Log(log) => log.stop().await,
        }
    }
}
