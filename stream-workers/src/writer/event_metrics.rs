//! Metrics about `events` that the active writer exports in the background.

use super::statements::Server;
use crate::metrics;
use std::convert::Infallible;
use std::time::Duration;
use store::row_binary::Decoder;

const PARTS_EVERY: Duration = Duration::from_secs(60);
/// Interval between checks for keys with two live rows.
const KEYS_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Delay of the first check, so that a takeover is over and the backlog is stored.
const KEYS_FIRST_AFTER: Duration = Duration::from_secs(10 * 60);
/// Number of statements among which the keys are divided, so that each needs less memory.
const RUNS: u64 = 16;

/// Exports the largest number of parts in any month. With many parts, reads become slow and ClickHouse rejects inserts.
pub(super) async fn keep_counting_parts(server: &Server) -> Infallible {
    loop {
        match parts(server).await {
            Ok(parts) => metrics::parts_of_month(parts),
            Err(error) => tracing::warn!("failed to count the parts of the table events: {error:#}"),
        }
        tokio::time::sleep(PARTS_EVERY).await;
    }
}

/// Exports the number of keys with two live rows. ClickHouse would never merge them.
pub(super) async fn keep_checking_keys(server: &Server) -> Infallible {
    tokio::time::sleep(KEYS_FIRST_AFTER).await;
    loop {
        match duplicate_keys(server).await {
            Ok(keys) => {
                metrics::duplicate_keys(keys);
                if keys > 0 {
                    tracing::error!(keys, "found events with two live rows, which are counted twice; rebuild the tables");
                }
            }
            Err(error) => tracing::warn!("failed to check for events with two live rows: {error:#}"),
        }
        tokio::time::sleep(KEYS_EVERY).await;
    }
}

async fn parts(server: &Server) -> anyhow::Result<u64> {
    Ok(Decoder(&server.read_with_short_deadline(include_str!("sql/parts.sql"), &[]).await?).u64()?)
}

async fn duplicate_keys(server: &Server) -> anyhow::Result<u64> {
    let mut keys = 0;
    for run in 0..RUNS {
        let parameters = [("runs", RUNS.to_string()), ("run", run.to_string())];
        keys += Decoder(&server.read(include_str!("sql/duplicate_keys.sql"), &parameters).await?).u64()?;
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::super::epoch::random_slot;
    use super::super::statements::Outcome;
    use super::*;
    use service_kit::testing::TestStores;

    #[tokio::test(flavor = "multi_thread")]
    async fn counts_keys_with_two_live_rows() {
        let server = Server::connect(&TestStores::fresh().await.clickhouse).unwrap();
        let insert = async |rows: &str| {
            let sql = format!("INSERT INTO events (home, site, key, version, is_deleted) {rows}");
            assert_eq!(server.run(&random_slot(), &sql, &[], &[]).await, Outcome::Done);
        };
        // For each key, insert one row; for some, a second version, one of which is the tombstone of a key that moved.
        insert("SELECT 202601, 'test.a', number, 1, 0 FROM numbers(100)").await;
        insert("SELECT 202601, 'test.a', number, 2, number = 7 FROM numbers(10)").await;
        insert("SELECT 202601, 'test.b', 7, 2, 0").await;
        assert_eq!(duplicate_keys(&server).await.unwrap(), 0);
        // Insert the same keys at another place and in another partition.
        insert("SELECT 202601, 'test.b', number, 3, 0 FROM numbers(20, 5)").await;
        insert("SELECT 202602, 'test.a', number, 3, 0 FROM numbers(40, 3)").await;
        assert_eq!(duplicate_keys(&server).await.unwrap(), 8);
    }
}
