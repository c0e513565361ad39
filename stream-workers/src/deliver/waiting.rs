//! What waits in the queue, and what had no room in it: the figures of the gauges.

use super::Ahead;
use sqlx::PgPool;

/// What waits in the queue.
#[derive(Clone, Copy, Debug, PartialEq, sqlx::FromRow)]
pub struct Waiting {
    /// Deliveries that are neither delivered nor given up.
    pub pending: i64,
    /// For how many seconds the oldest due one has been due, of endpoints to which no attempt is under way; negative when
    /// none is due yet, none where nothing of the kind waits.
    pub overdue_seconds: Option<f64>,
}

impl Waiting {
    /// Looks at the queue, by the database's clock and what is added to it.
    pub async fn look(pool: &PgPool, ahead: &Ahead) -> Result<Self, sqlx::Error> {
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

/// What endpoints had no room for within the last hour, by the database's clock and what is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct WithoutRoom {
    /// Deliveries that were dropped because too many waited for their endpoint, and have not been ordered again.
    pub deliveries: i64,
    pub organizations: i64,
}

impl WithoutRoom {
    pub async fn look(pool: &PgPool, ahead: &Ahead) -> Result<Self, sqlx::Error> {
        sqlx::query_as(
            "SELECT count(*) AS deliveries, count(DISTINCT organization_id) AS organizations FROM webhook_queue \
             WHERE had_no_room AND ended_at > now() + $1 * interval '1 microsecond' - interval '1 hour'",
        )
        .bind(ahead.micros())
        .fetch_one(pool)
        .await
    }
}
