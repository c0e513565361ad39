//! Old sessions are deleted, hourly and in small batches, where the operator says when; else they are kept for ever.
//!
//! Must not delete a session while a click token of it is left: whoever follows the link may still be shown its events.

use chrono::TimeDelta;
use clap::Args;
use service_kit::clock::Clock;
use service_kit::housekeeping;
use sqlx::PgPool;
use tokio_util::task::AbortOnDropHandle;

/// How long sessions are kept.
#[derive(Args, Clone, Debug, Default)]
pub struct SessionExpiry {
    /// Days after it was first heard of that a session is deleted, once no click token of it is left; its events stay, and one
    /// that names it later makes it anew [default: for ever]
    #[arg(long, env = "TELEMETRY_SESSION_KEEP", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(30..=36_500))]
    pub session_keep: Option<u32>,
}

const OLD: &str = "DELETE FROM sessions WHERE (organization_id, session_id) IN ( \
    SELECT s.organization_id, s.session_id FROM sessions s WHERE s.created_at < $1 AND NOT EXISTS ( \
        SELECT FROM click_tokens t WHERE t.organization_id = s.organization_id AND t.session_id = s.session_id) \
    ORDER BY s.created_at LIMIT $2 FOR UPDATE OF s SKIP LOCKED)";

/// Runs for as long as the handle lives; nothing where sessions are kept for ever.
pub(crate) fn start(pool: PgPool, clock: Clock, expiry: &SessionExpiry) -> Option<AbortOnDropHandle<()>> {
    let keep = TimeDelta::days(expiry.session_keep?.into());
    Some(housekeeping::hourly("old sessions", move || {
        let (pool, before) = (pool.clone(), clock.now() - keep);
        async move { housekeeping::delete_in_batches(&pool, OLD, before).await }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{DateTime, Utc};
    use schemas::secrets::PlainClickToken;
    use service_kit::testing::{Seed, TestStores, eventually};
    use uuid::Uuid;

    const DAY: TimeDelta = TimeDelta::days(1);

    async fn plant(pool: &PgPool, org: Uuid, made: DateTime<Utc>) -> Uuid {
        let session = Uuid::new_v4();
        let statement = "INSERT INTO sessions (organization_id, session_id, created_at) VALUES ($1, $2, $3)";
        sqlx::query(statement).bind(org).bind(session).bind(made).execute(pool).await.unwrap();
        session
    }

    async fn left(pool: &PgPool) -> Vec<Uuid> {
        sqlx::query_scalar("SELECT session_id FROM sessions ORDER BY created_at").fetch_all(pool).await.unwrap()
    }

    #[tokio::test]
    async fn an_old_session_goes_once_no_click_token_of_it_is_left_and_a_younger_one_stays() {
        let stores = TestStores::fresh().await;
        let (pool, clock) = (&stores.pool, Clock::manual(DateTime::from_timestamp(1_790_000_000, 0).unwrap()));
        let org = Seed(pool).org("agent", schemas::identity::OrgType::Agent).await.id.0;
        let (_old, linked) = (plant(pool, org, clock.now() - DAY * 61).await, plant(pool, org, clock.now() - DAY * 61).await);
        let young = plant(pool, org, clock.now() - DAY * 59).await;
        sqlx::query(
            "INSERT INTO click_tokens (token_hash, organization_id, session_id, content_url, created_at, expires_at) \
             VALUES ($1, $2, $3, 'https://a.test/', now(), now())",
        )
        .bind(PlainClickToken::mint().hash().as_bytes().to_vec())
        .bind(org)
        .bind(linked)
        .execute(pool)
        .await
        .unwrap();
        let task = start(pool.clone(), clock.clone(), &SessionExpiry { session_keep: Some(60) });
        eventually("the first round is done", || async { (left(pool).await == [linked, young]).then_some(()) }).await;
        drop(task);
        sqlx::query("DELETE FROM click_tokens").execute(pool).await.unwrap();
        assert_eq!(housekeeping::delete_in_batches(pool, OLD, clock.now() - DAY * 60).await.unwrap(), 1);
        assert_eq!(left(pool).await, [young]);
        assert!(start(pool.clone(), clock, &SessionExpiry::default()).is_none(), "unasked, all are kept");
    }
}
