//! Figures for the gauges: the deliveries in the queue, and those that were dropped because it was full.

use super::ClockOffset;
use sqlx::PgPool;

#[derive(Clone, Copy, Debug, PartialEq, sqlx::FromRow)]
pub struct QueueFigures {
    /// Deliveries that are neither delivered nor given up.
    pub pending: i64,
    /// Seconds since the oldest delivery became due, for endpoints without a running attempt. Negative if it is due later; `None` if there
    /// is no such delivery.
    pub overdue_seconds: Option<f64>,
}

impl QueueFigures {
    /// Reads the queue, by the database's clock plus `ahead`.
    pub async fn read(pool: &PgPool, ahead: &ClockOffset) -> Result<Self, sqlx::Error> {
        sqlx::query_as(
            "SELECT coalesce(sum(pending), 0)::bigint AS pending, \
                 extract(epoch FROM now() + $1 * interval '1 microsecond' - min(oldest) FILTER (WHERE NOT is_tried))::float8 \
                     AS overdue_seconds \
             FROM (SELECT count(*) AS pending, min(due_at) AS oldest, \
                       bool_or(lease IS NOT NULL AND due_at > now() + $1 * interval '1 microsecond') AS is_tried \
                   FROM webhook_queue WHERE status = 'pending' GROUP BY endpoint_id) AS of_endpoint",
        )
        .bind(ahead.micros())
        .fetch_one(pool)
        .await
    }
}

/// Deliveries dropped from full queues within the last hour, by the database's clock plus `ahead`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct DroppedFigures {
    /// Deliveries dropped because their endpoint's queue was full, and not requested again.
    pub deliveries: i64,
    pub organizations: i64,
}

impl DroppedFigures {
    pub async fn read(pool: &PgPool, ahead: &ClockOffset) -> Result<Self, sqlx::Error> {
        sqlx::query_as(
            "SELECT count(*) AS deliveries, count(DISTINCT organization_id) AS organizations FROM webhook_queue \
             WHERE had_no_room AND ended_at > now() + $1 * interval '1 microsecond' - interval '1 hour'",
        )
        .bind(ahead.micros())
        .fetch_one(pool)
        .await
    }
}
