//! The queue in PostgreSQL: claims due deliveries and stores attempts' outcomes. Contains all of the deliverer's statements.

use super::attempt_limits::Capacity;
use super::queue_figures::{DroppedFigures, QueueFigures};
use super::{ClockOffset, metrics};
use chrono::{DateTime, Utc};
use schemas::webhook::delivery_log::{AttemptOutcome, DeliveryStatus};
use sqlx::PgPool;
use std::io;
use std::time::Duration;
use tokio::time::timeout;
use uuid::Uuid;

/// Maximum rows per statement in a sweep.
const BATCH: i64 = 1_000;
/// A statement's deadline, including the wait for its connection. The server cancels statements after three seconds, so this applies only
/// if the server doesn't respond.
pub(super) const STATEMENT_DEADLINE: Duration = Duration::from_secs(4);

/// Waits for a statement until its deadline. A statement without a response counts as failed, whatever its effect, and its connection is
/// not reused.
async fn with_deadline<T>(asked: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    let late = || sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, "PostgreSQL did not respond"));
    timeout(STATEMENT_DEADLINE, asked).await.unwrap_or_else(|_| Err(late()))
}

/// Maximum time from a lease to the stored outcome of its attempt, because an attempt starts only with a fresh lease. A lease whose
/// response was lost lasts longer.
pub(super) const MAX_ATTEMPT_TIME: Duration = Duration::from_secs(20);

#[derive(Clone)]
pub(super) struct Queue {
    pub(super) pool: PgPool,
    pub(super) ahead: ClockOffset,
    pub(super) lease: Duration,
}

/// A delivery to attempt now, with everything the attempt needs.
#[derive(sqlx::FromRow)]
pub(super) struct ClaimedDelivery {
    pub(super) delivery_id: Uuid,
    pub(super) endpoint_id: Uuid,
    pub(super) organization_id: Uuid,
    pub(super) lease: Uuid,
    /// Attempts that ended before this one.
    pub(super) attempts: i32,
    pub(super) event_type: String,
    pub(super) body: String,
    pub(super) url: String,
    pub(super) secret_sealed: Vec<u8>,
    /// Time by the database's clock.
    pub(super) started_at: DateTime<Utc>,
}

pub(super) struct AttemptResult {
    pub(super) outcome: AttemptOutcome,
    pub(super) status_code: Option<u16>,
    pub(super) took: Duration,
    /// Time from the end of this attempt to the next one, because the receiver may have received this one only then.
    pub(super) next_after: Option<Duration>,
}

impl AttemptResult {
    pub(super) fn status(&self) -> DeliveryStatus {
        match (self.outcome, self.next_after) {
            (AttemptOutcome::Delivered, _) => DeliveryStatus::Delivered,
            (_, Some(_)) => DeliveryStatus::Pending,
            (_, None) => DeliveryStatus::DeadLetter,
        }
    }
}

const CLAIM: &str = include_str!("queue/claim.sql");

impl Queue {
    /// Claims due deliveries that fit into this room. Several deliverers can do this concurrently.
    pub(super) async fn claim(&self, room: &Capacity) -> Result<Vec<ClaimedDelivery>, sqlx::Error> {
        let narrow: Vec<Uuid> = room.limited_endpoints.iter().map(|narrow| narrow.endpoint).collect();
        let left: Vec<i32> = room.limited_endpoints.iter().map(|narrow| narrow.remaining).collect();
        let (busy, attempts): (Vec<Uuid>, Vec<i32>) = room.busy.iter().copied().unzip();
        let claimed = sqlx::query_as(CLAIM)
            .bind(self.ahead.micros())
            .bind(micros(self.lease))
            .bind(room.in_all)
            .bind(room.per_endpoint)
            .bind(narrow)
            .bind(left)
            .bind(busy)
            .bind(attempts)
            .fetch_all(&self.pool);
        with_deadline(claimed).await
    }

    /// Stores an attempt's outcome. Returns false, and stores nothing, if the lease was lost. If the outcome of a call is unknown, repeat
    /// it: it has no further effect, and returns true.
    pub(super) async fn finish(&self, claimed: &ClaimedDelivery, ended: &AttemptResult) -> Result<bool, sqlx::Error> {
        let status = ended.status();
        let next = ended.next_after.filter(|_| status == DeliveryStatus::Pending).map(micros);
        let written = sqlx::query(
            "UPDATE webhook_queue SET status = $3, attempts = attempts + 1, lease = NULL, \
                 due_at = coalesce(now() + ($9 + $4) * interval '1 microsecond', due_at), \
                 ended_at = CASE WHEN $3 <> 'pending' THEN now() + $9 * interval '1 microsecond' END, \
                 last_attempt_at = $5, last_outcome = $6, last_status_code = $7, last_duration_ms = $8 \
             WHERE delivery_id = $1 AND lease = $2",
        )
        .bind(claimed.delivery_id)
        .bind(claimed.lease)
        .bind(status.as_str())
        .bind(next)
        .bind(claimed.started_at)
        .bind(ended.outcome.as_str())
        .bind(ended.status_code.map(i32::from))
        .bind(i64::try_from(ended.took.as_millis()).unwrap_or(i64::MAX))
        .bind(self.ahead.micros())
        .execute(&self.pool);
        if with_deadline(written).await?.rows_affected() == 1 {
            return Ok(true);
        }
        // A separate statement sees changes that the first one may have waited for.
        let earlier =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM webhook_queue WHERE delivery_id = $1 AND last_attempt_at = $2)")
                .bind(claimed.delivery_id)
                .bind(claimed.started_at)
                .fetch_one(&self.pool);
        with_deadline(earlier).await
    }

    /// Releases a lease: the delivery is due again after this pause, and the attempt doesn't count.
    pub(super) async fn give_back(&self, claimed: &ClaimedDelivery, pause: Duration) -> Result<(), sqlx::Error> {
        let given = sqlx::query("UPDATE webhook_queue SET lease = NULL, due_at = $3 WHERE delivery_id = $1 AND lease = $2")
            .bind(claimed.delivery_id)
            .bind(claimed.lease)
            .bind(claimed.started_at + pause)
            .execute(&self.pool);
        with_deadline(given).await.map(drop)
    }

    /// Drops disabled endpoints' pending deliveries, and updates the gauges.
    pub(super) async fn sweep(&self) {
        let dropped = async {
            while self.drop_some().await? == BATCH.unsigned_abs() {}
            Ok::<(), sqlx::Error>(())
        };
        if let Err(error) = dropped.await {
            tracing::warn!("failed to drop deliveries to disabled endpoints, retrying in the next round: {error}");
        }
        // Update the gauges even if no deliveries could be dropped, for example because the database is read-only.
        let looked = async {
            metrics::waiting(&with_deadline(QueueFigures::read(&self.pool, &self.ahead)).await?);
            metrics::without_room(&with_deadline(DroppedFigures::read(&self.pool, &self.ahead)).await?);
            Ok::<(), sqlx::Error>(())
        };
        if let Err(error) = looked.await {
            tracing::warn!("failed to read the queue's state, retrying in the next round: {error}");
        }
    }

    /// Drops a batch of deliveries. If an attempt may be running, its outcome is stored first, and a later round drops the delivery.
    async fn drop_some(&self) -> Result<u64, sqlx::Error> {
        let dropped = sqlx::query(
            "UPDATE webhook_queue SET status = 'dropped', lease = NULL, ended_at = now() + $2 * interval '1 microsecond' \
             WHERE status = 'pending' AND delivery_id = ANY(array( \
                 SELECT q.delivery_id FROM webhook_endpoints e JOIN webhook_queue q ON q.endpoint_id = e.id \
                 WHERE e.disabled_at IS NOT NULL AND q.status = 'pending' \
                     AND (q.lease IS NULL OR q.due_at <= now() + ($2 + $3) * interval '1 microsecond') \
                 LIMIT $1 FOR UPDATE OF q SKIP LOCKED))",
        )
        .bind(BATCH)
        .bind(self.ahead.micros())
        .bind(micros(self.lease.saturating_sub(MAX_ATTEMPT_TIME)))
        .execute(&self.pool);
        let dropped = with_deadline(dropped).await?.rows_affected();
        metrics::dropped(dropped);
        Ok(dropped)
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
