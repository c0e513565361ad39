//! Limits pending deliveries, and deletes old ones from the log, hourly and in small batches.

use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use service_kit::clock::Clock;
use service_kit::hourly_deletion;
use sqlx::PgPool;
use tokio_util::task::AbortOnDropHandle;

const DEFAULT_DAYS: u32 = 30;
const DEFAULT_PENDING: u32 = 10_000;

#[derive(Args, Clone, Copy, Debug)]
pub struct DeliveryLogSettings {
    /// Days to keep completed webhook deliveries in the log, where they can be redelivered
    #[arg(long, env = "TELEMETRY_DELIVERY_LOG_KEEP", default_value_t = DEFAULT_DAYS, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub delivery_log_keep: u32,
    /// Maximum pending deliveries per endpoint; further ones are logged as dropped and can be redelivered
    #[arg(long, env = "TELEMETRY_WEBHOOK_PENDING", default_value_t = DEFAULT_PENDING, value_name = "DELIVERIES", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub webhook_pending: u32,
}

impl DeliveryLogSettings {
    /// Returns the session settings that the functions in `schemas/postgres/0010_webhook_queue.sql` read.
    pub(crate) fn session(&self) -> [(&'static str, String); 1] {
        [("telemetry.webhook_pending", self.webhook_pending.to_string())]
    }
}

impl Default for DeliveryLogSettings {
    fn default() -> Self {
        Self { delivery_log_keep: DEFAULT_DAYS, webhook_pending: DEFAULT_PENDING }
    }
}

/// Deletes deliveries that ended before $1, together with their status.
const ENDED: &str = "DELETE FROM webhook_deliveries WHERE id = ANY(array( \
    SELECT delivery_id FROM webhook_queue WHERE ended_at < $1 ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED))";

/// Runs until the handle is dropped. Several processes can run it, because each skips rows that another is deleting.
pub(crate) fn start(pool: PgPool, clock: Clock, settings: DeliveryLogSettings) -> AbortOnDropHandle<()> {
    let keep = TimeDelta::days(settings.delivery_log_keep.into());
    hourly_deletion::hourly("old webhook deliveries", move || {
        let (pool, ended_before) = (pool.clone(), clock.now() - keep);
        async move { delete(&pool, ended_before).await }
    })
}

async fn delete(pool: &PgPool, ended_before: DateTime<Utc>) -> Result<u64, sqlx::Error> {
    hourly_deletion::delete_in_batches(pool, ENDED, ended_before).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use service_kit::testing::{Seed, TestStores, eventually};

    /// Inserts deliveries that ended this many days ago. A negative number means that it has not ended.
    async fn plant(pool: &PgPool, days_ago: &[i32]) {
        let org = Seed(pool).org("owner", schemas::identity::OrgType::ContentOwner).await;
        sqlx::query(
            "WITH endpoint AS (INSERT INTO webhook_endpoints (id, organization_id, url, event_types, secret_sealed, created_at) \
                 VALUES (gen_random_uuid(), $1, 'https://hooks.a.test/', '{invite.claimed}', '', now()) RETURNING id) \
             INSERT INTO webhook_deliveries (id, endpoint_id, organization_id, event_type, body, created_at) \
             SELECT gen_random_uuid(), endpoint.id, $1, 'invite.claimed', days, now() - interval '100 days' \
             FROM endpoint, unnest($2::text[]) AS given (days)",
        )
        .bind(org.id.0)
        .bind(days_ago.iter().map(ToString::to_string).collect::<Vec<_>>())
        .execute(pool)
        .await
        .unwrap();
        sqlx::query(
            "UPDATE webhook_queue SET status = 'delivered', ended_at = now() - body::int * interval '1 day' \
             FROM webhook_deliveries WHERE id = delivery_id AND body::int >= 0",
        )
        .execute(pool)
        .await
        .unwrap();
    }

    async fn left(pool: &PgPool) -> Vec<i32> {
        let bodies = "SELECT d.body::int FROM webhook_deliveries d JOIN webhook_queue q ON q.delivery_id = d.id ORDER BY 1";
        sqlx::query_scalar(bodies).fetch_all(pool).await.unwrap()
    }

    #[tokio::test]
    async fn deletes_old_deliveries_unless_they_are_pending() {
        let stores = TestStores::unprepared().await;
        plant(&stores.pool, &[-1, 0, 6, 8, 40]).await;
        let settings = DeliveryLogSettings { delivery_log_keep: 7, ..DeliveryLogSettings::default() };
        let handle = start(stores.pool.clone(), Clock::System, settings);
        eventually("the first round is done", || async { (left(&stores.pool).await.len() <= 3).then_some(()) }).await;
        assert_eq!(left(&stores.pool).await, [-1, 0, 6]);
        drop(handle);
        let orphans =
            "SELECT count(*) FROM webhook_queue q WHERE NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.id = q.delivery_id)";
        assert_eq!(sqlx::query_scalar::<_, i64>(orphans).fetch_one(&stores.pool).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn deletes_several_batches_per_round() {
        let stores = TestStores::unprepared().await;
        plant(&stores.pool, &[9; 2_001]).await;
        let now = Clock::System.now();
        assert_eq!(delete(&stores.pool, now - TimeDelta::days(10)).await.unwrap(), 0);
        assert_eq!(delete(&stores.pool, now - TimeDelta::days(8)).await.unwrap(), 2_001);
        assert_eq!(left(&stores.pool).await, Vec::<i32>::new());
    }
}
