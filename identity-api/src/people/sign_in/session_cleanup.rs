//! Deletes ended sessions and old links, hourly and in small batches.
//!
//! Keeps links that still count against their account's emails, and sessions that haven't ended, idled out or expired.

use chrono::{DateTime, TimeDelta, Utc};
use service_kit::clock::Clock;
use service_kit::hourly_deletion;
use sqlx::PgPool;
use tokio_util::task::AbortOnDropHandle;

const SESSIONS: &str = "DELETE FROM user_sessions WHERE token_hash = ANY(array( \
    SELECT token_hash FROM user_sessions WHERE least(expires_at, idle_until, ended_at) < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))";
const LINKS: &str = "DELETE FROM magic_links WHERE token_hash = ANY(array( \
    SELECT token_hash FROM magic_links WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))";

/// Runs until the handle is dropped.
pub(crate) fn start(pool: PgPool, clock: Clock, keep_days: u32) -> AbortOnDropHandle<()> {
    let keep = TimeDelta::days(keep_days.into());
    hourly_deletion::hourly("ended sessions and sign-in links", move || {
        let (pool, before) = (pool.clone(), clock.now() - keep);
        async move { delete(&pool, before).await }
    })
}

async fn delete(pool: &PgPool, before: DateTime<Utc>) -> Result<u64, sqlx::Error> {
    let sessions = hourly_deletion::delete_in_batches(pool, SESSIONS, before).await?;
    Ok(sessions + hourly_deletion::delete_in_batches(pool, LINKS, before).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use service_kit::testing::TestStores;

    #[tokio::test]
    async fn deletes_only_sessions_and_links_that_ended_long_ago() {
        let stores = TestStores::unprepared().await;
        let pool = &stores.pool;
        // Days since it expired, idled out or ended; negative values are in the future.
        let sessions = "WITH person AS (INSERT INTO users (id, email) VALUES (gen_random_uuid(), 'a@b.test') RETURNING id) \
            INSERT INTO user_sessions (token_hash, user_id, expires_at, idle_until, ended_at) \
            SELECT sha256(name::bytea), person.id, now() - expired * interval '1 day', now() - idle * interval '1 day', \
                   now() - ended * interval '1 day' \
            FROM person, (VALUES ('good', -9, -9, NULL), ('young', 3, -9, NULL), ('expired', 31, 20, NULL), \
                                 ('idle', -9, 31, NULL), ('ended', -9, -9, 31)) AS given (name, expired, idle, ended)";
        sqlx::query(sessions).execute(pool).await.unwrap();
        let links = "INSERT INTO magic_links (token_hash, email, created_at, expires_at) \
            SELECT sha256(days::text::bytea), 'a@b.test', now(), now() - days * interval '1 day' FROM unnest('{-1, 29, 31}'::int[]) days";
        sqlx::query(links).execute(pool).await.unwrap();
        assert_eq!(delete(pool, Clock::System.now() - TimeDelta::days(30)).await.unwrap(), 4);
        let left = "SELECT (SELECT count(*) FROM user_sessions WHERE token_hash IN (sha256('good'), sha256('young'))), \
                           (SELECT count(*) FROM user_sessions), (SELECT count(*) FROM magic_links)";
        assert_eq!(sqlx::query_as::<_, (i64, i64, i64)>(left).fetch_one(pool).await.unwrap(), (2, 2, 2));
    }
}
