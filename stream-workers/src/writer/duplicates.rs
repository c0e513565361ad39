//! Checks that no key has two live rows. ClickHouse would never remove the second one.

use super::server::Server;
use crate::metrics;
use std::time::Duration;
use store::row_binary::Decoder;

/// Interval between checks.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// The first check, when a takeover is over and the log has been caught up with.
const FIRST_AFTER: Duration = Duration::from_secs(10 * 60);
/// Number of statements that share the keys, so that each needs less memory.
const RUNS: u64 = 16;

/// Counts them every day and exports the number as a metric. Never returns.
pub(super) async fn check_daily(server: &Server) {
    tokio::time::sleep(FIRST_AFTER).await;
    loop {
        match count(server).await {
            Ok(keys) => {
                metrics::duplicate_keys(keys);
                if keys > 0 {
                    tracing::error!(keys, "events with two live rows: they are counted twice; rebuild the tables");
                }
            }
            Err(error) => tracing::warn!("failed to check for events with two live rows: {error:#}"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn count(server: &Server) -> anyhow::Result<u64> {
    let mut keys = 0;
    for run in 0..RUNS {
        let parameters = [("runs", RUNS.to_string()), ("run", run.to_string())];
        keys += Decoder(&server.read(include_str!("sql/duplicate_keys.sql"), &parameters).await?).u64()?;
    }
    Ok(keys)
}
