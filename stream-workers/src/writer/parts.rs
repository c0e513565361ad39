//! Exports how many parts `events` has: reads become slow with many, and ClickHouse refuses inserts with too many.

use super::server::Server;
use crate::metrics;
use std::time::Duration;
use store::row_binary::Decoder;

/// Interval between counts.
const EVERY: Duration = Duration::from_secs(60);

/// Exports the parts of the month that has the most. Never returns.
pub(super) async fn keep_counting(server: &Server) {
    loop {
        match count(server).await {
            Ok(parts) => metrics::parts_of_month(parts),
            Err(error) => tracing::warn!("failed to count the parts of events: {error:#}"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

async fn count(server: &Server) -> anyhow::Result<u64> {
    Ok(Decoder(&server.read_soon(include_str!("sql/parts.sql"), &[]).await?).u64()?)
}
