//! What a service deletes by itself once it is old enough: hourly, in small batches, in as many processes as there are.

use chrono::{DateTime, Utc};
use sqlx::PgPool;
use std::fmt::Display;
use std::time::Duration;
use tokio::time::MissedTickBehavior;
use tokio_util::task::AbortOnDropHandle;

const EVERY: Duration = Duration::from_secs(3_600);
/// Rows of one statement: few enough that nobody waits for their locks.
const BATCH: i64 = 1_000;
/// Pause between two statements of a round.
const BREATH: Duration = Duration::from_millis(50);

/// Runs rounds for as long as the handle lives, the first at once; a round says how many of `what` it has deleted.
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
                Ok(deleted) => tracing::info!(deleted, "{what} are deleted"),
                Err(error) => tracing::warn!("{what} are not deleted, the next round will: {error:#}"),
            }
        }
    }))
}

/// Deletes batch by batch what is older than `before`. The statement takes that as `$1` and the size of a batch as `$2`,
/// and passes over what another process is deleting (`FOR UPDATE SKIP LOCKED`).
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
