//! Keys with two live rows: there must be none, and nothing in ClickHouse would ever remove one.

use super::server::Server;
use crate::metrics;
use std::time::Duration;
use store::row_binary::Decoder;

/// Between two checks.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// The first check, when a takeover is over and the log has been caught up with.
const FIRST_AFTER: Duration = Duration::from_secs(10 * 60);
/// Keys are compared in so many statements, each of which needs memory for its part of them.
const RUNS: u64 = 16;

/// Counts them every day, as a metric. Never ends.
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
