//! Hourly deletion of old rows in small batches. Several processes may run it concurrently.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::fmt::Display;
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

const EVERY: Duration = Duration::from_secs(3_600);
/// Rows per statement, few enough that locks are held only briefly.
const BATCH: i64 = 1_000;
/// Pause between two statements.
const BREATH: Duration = Duration::from_millis(50);

/// Runs `round` every hour until the handle is dropped, starting immediately. It returns the number of deleted `what`.
pub fn hourly<F, Fut, E>(what: &'static str, mut round: F) -> AbortOnDropHandle<()>
where
    F: FnMut() -> Fut + Send + 'static,
    Fut: Future<Output = Result<u64, E>> + Send,
    E: Display + Send,
{
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut rounds = tokio::time::interval(EVERY);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            match round().await {
                Ok(0) => {}
                Ok(deleted) => tracing::info!(deleted, "deleted {what}"),
                Err(error) => tracing::warn!("failed to delete {what}, retrying in the next round: {error:#}"),
            }
        }
    }))
}

/// Deletes rows older than `before` in batches. The statement takes `before` as `$1` and the batch size as `$2`, and must skip rows that
/// another process is deleting (`FOR UPDATE SKIP LOCKED`).
pub async fn delete_in_batches(pool: &PgPool, statement: &'static str, before: DateTime<Utc>) -> Result<u64, sqlx::Error> {
    let mut deleted = 0;
    loop {
        let batch = sqlx::query(statement).bind(before).bind(BATCH).execute(pool).await?.rows_affected();
        deleted += batch;
        if batch < BATCH.unsigned_abs() {
            return Ok(deleted);
        }
        tokio::time::sleep(BREATH).await;
    }
}
