//! Old sessions are deleted, hourly and in small batches, where the operator says when; else they are kept for ever.
//!
//! Must not delete a session while a click token of it is left: whoever follows the link may still be shown its events. Nor
//! while a record that leaves its agent to be looked up may be on the log, where that ends at all: a replay looks again.

use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use service_kit::clock::Clock;
use service_kit::housekeeping;
use service_kit::kafka::{self, Retention};
use service_kit::settings::KafkaSettings;
use sqlx::PgPool;
use tokio_util::task::AbortOnDropHandle;

/// How long sessions are kept.
#[derive(Args, Clone, Debug, Default)]
pub struct SessionExpiry {
    /// Days after it was first heard of that a session is deleted, once no click token of it is left, and not before its records
    /// have left a log that drops them; its events stay, and one that names it later makes it anew [default: for ever]
    #[arg(long, env = "TELEMETRY_SESSION_KEEP", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(30..=36_500))]
    pub session_keep: Option<u32>,
}

const OLD: &str = "DELETE FROM sessions WHERE (organization_id, session_id) IN ( \
    SELECT s.organization_id, s.session_id FROM sessions s WHERE s.created_at < $1 AND NOT EXISTS ( \
        SELECT FROM click_tokens t WHERE t.organization_id = s.organization_id AND t.session_id = s.session_id) \
    ORDER BY s.created_at LIMIT $2 FOR UPDATE OF s SKIP LOCKED)";

/// Runs for as long as the handle lives; nothing where sessions are kept for ever.
pub(crate) fn start(pool: PgPool, clock: Clock, kafka: KafkaSettings, expiry: &SessionExpiry) -> Option<AbortOnDropHandle<()>> {
    let wished = TimeDelta::days(expiry.session_keep?.into());
    Some(housekeeping::hourly("old sessions", move || {
        let (pool, now, kafka) = (pool.clone(), clock.now(), kafka.clone());
        async move { round(&pool, now, &kafka, wished).await }
    }))
}

/// Deletes what may be deleted now. Asks the log each time: its retention may be changed while gateways run.
async fn round(pool: &PgPool, now: DateTime<Utc>, kafka: &KafkaSettings, wished: TimeDelta) -> anyhow::Result<u64> {
    let keep = keep(wished, kafka::retention(kafka, &kafka.topic).await?);
    let Some(before) = keep.and_then(|keep| now.checked_sub_signed(keep)) else { return Ok(0) };
    Ok(housekeeping::delete_in_batches(pool, OLD, before).await?)
}

/// For how long a session is kept; `None` is for ever. A record asks for its agent as of its acceptance.
fn keep(wished: TimeDelta, log: Retention) -> Option<TimeDelta> {
    log.outlived(Some(wished), TimeDelta::zero())
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn a_session_outlives_every_record_that_may_have_to_ask_for_its_agent() {
        let for_days = |days: u64| Retention::For(std::time::Duration::from_secs(days * 86_400));
        for (wished, log, expected) in [(40, Retention::ForEver, 40), (40, for_days(7), 40), (30, for_days(90), 120)] {
            assert_eq!(keep(TimeDelta::days(wished), log), Some(TimeDelta::days(expected)), "{wished} {log:?}");
        }
        assert_eq!(keep(DAY, Retention::For(std::time::Duration::MAX)), None, "what cannot be reckoned is for ever");
    }

    #[tokio::test]
    async fn an_old_session_goes_once_no_click_token_of_it_is_left_and_a_younger_one_stays() {
        let stores = TestStores::with_topics().await;
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
        let task = start(pool.clone(), clock.clone(), stores.kafka.clone(), &SessionExpiry { session_keep: Some(60) });
        eventually("the first round is done", || async { (left(pool).await == [linked, young]).then_some(()) }).await;
        drop(task);
        sqlx::query("DELETE FROM click_tokens").execute(pool).await.unwrap();
        assert_eq!(housekeeping::delete_in_batches(pool, OLD, clock.now() - DAY * 60).await.unwrap(), 1);
        assert_eq!(left(pool).await, [young]);
        assert!(start(pool.clone(), clock, stores.kafka.clone(), &SessionExpiry::default()).is_none(), "unasked, all are kept");
    }
}
