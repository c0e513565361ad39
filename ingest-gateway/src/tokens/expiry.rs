//! Expired click tokens are deleted, hourly and in small batches, once no replay can need them.
//!
//! Must not delete a token while a record that names it may still be on the log: a replay looks tokens up as of the
//! acceptance of their event, which may have been at the last moment of the token.

use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use schemas::clicks::CLICK_TOKEN_LIFETIME;
use service_kit::clock::Clock;
use service_kit::housekeeping;
use service_kit::kafka::{self, Retention};
use service_kit::settings::KafkaSettings;
use sqlx::PgPool;
use tokio_util::task::AbortOnDropHandle;

/// How long click tokens are kept.
#[derive(Args, Clone, Debug, Default)]
pub struct TokenExpiry {
    /// Days after which a click token is deleted; counted from its making, so at least the 90 of its validity and those that the
    /// log is kept [default: 120 and those that the log is kept, for ever with a log that is kept for ever]
    #[arg(long, env = "TELEMETRY_CLICK_TOKEN_KEEP", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(90..=36_500))]
    pub click_token_keep: Option<u32>,
}

impl TokenExpiry {
    /// For how long after its making a token is kept; `None` is for ever.
    fn keep(&self, log: Retention) -> Option<TimeDelta> {
        log.outlived(self.click_token_keep.map(|days| TimeDelta::days(days.into())), CLICK_TOKEN_LIFETIME)
    }
}

/// Runs for as long as the handle lives. Several gateways may: they pass over what another is deleting.
pub(crate) fn start(pool: PgPool, clock: Clock, kafka: KafkaSettings, expiry: TokenExpiry) -> AbortOnDropHandle<()> {
    housekeeping::hourly("expired click tokens", move || {
        let (pool, now, kafka, expiry) = (pool.clone(), clock.now(), kafka.clone(), expiry.clone());
        async move { round(&pool, now, &kafka, &expiry).await }
    })
}

/// Deletes what may be deleted now. Asks the log each time: its retention may be changed while gateways run.
async fn round(pool: &PgPool, now: DateTime<Utc>, kafka: &KafkaSettings, expiry: &TokenExpiry) -> anyhow::Result<u64> {
    let Some(keep) = expiry.keep(kafka::retention(kafka, &kafka.topic).await?) else { return Ok(0) };
    let Some(made_before) = now.checked_sub_signed(keep) else { return Ok(0) };
    Ok(delete(pool, made_before).await?)
}

/// Deletes tokens made before then. By their expiry, which has the index.
async fn delete(pool: &PgPool, made_before: DateTime<Utc>) -> Result<u64, sqlx::Error> {
    const EXPIRED: &str = "DELETE FROM click_tokens WHERE token_hash = ANY(array( \
        SELECT token_hash FROM click_tokens WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))";
    housekeeping::delete_in_batches(pool, EXPIRED, made_before + CLICK_TOKEN_LIFETIME).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::secrets::PlainClickToken;
    use service_kit::testing::{Seed, TestStores, eventually};
    use std::time::Duration;
    use uuid::Uuid;

    const DAY: TimeDelta = TimeDelta::days(1);

    fn start_of_time() -> DateTime<Utc> {
        DateTime::from_timestamp(1_790_000_000, 0).unwrap()
    }

    /// `count` tokens made then.
    async fn plant(pool: &PgPool, count: i32, made: DateTime<Utc>) {
        let org = Seed(pool).org("agent", schemas::identity::OrgType::Agent).await;
        let session = Uuid::new_v4();
        sqlx::query("INSERT INTO sessions (organization_id, session_id) VALUES ($1, $2)")
            .bind(org.id.0)
            .bind(session)
            .execute(pool)
            .await
            .unwrap();
        let hashes: Vec<Vec<u8>> = (0..count).map(|_| PlainClickToken::mint().hash().as_bytes().to_vec()).collect();
        sqlx::query(
            "INSERT INTO click_tokens (token_hash, organization_id, session_id, content_url, created_at, expires_at) \
             SELECT hash, $2, $3, 'https://a.test/', $4, $5 FROM unnest($1::bytea[]) AS given (hash)",
        )
        .bind(hashes)
        .bind(org.id.0)
        .bind(session)
        .bind(made)
        .bind(made + CLICK_TOKEN_LIFETIME)
        .execute(pool)
        .await
        .unwrap();
    }

    async fn left(pool: &PgPool) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM click_tokens").fetch_one(pool).await.unwrap()
    }

    #[test]
    fn a_token_outlives_every_record_that_may_name_it() {
        let expiry = |click_token_keep| TokenExpiry { click_token_keep };
        let for_days = |days: u64| Retention::For(Duration::from_secs(days * 86_400));
        for (wish, log, expected) in [
            (None, Retention::ForEver, None),
            (Some(95), Retention::ForEver, Some(95)),
            (None, for_days(7), Some(127)),
            (Some(95), for_days(7), Some(127)),
            (Some(500), for_days(7), Some(500)),
            (Some(90), for_days(0), Some(120)),
        ] {
            assert_eq!(expiry(wish).keep(log), expected.map(TimeDelta::days), "{wish:?} {log:?}");
        }
        assert_eq!(expiry(Some(90)).keep(Retention::For(Duration::MAX)), None, "what cannot be reckoned is for ever");
    }

    #[tokio::test]
    async fn a_token_goes_when_its_time_is_over_and_not_before() {
        let stores = TestStores::with_topics().await;
        let (clock, expiry) = (Clock::manual(start_of_time()), TokenExpiry { click_token_keep: Some(100) });
        plant(&stores.pool, 1, clock.now()).await;
        clock.advance(DAY);
        plant(&stores.pool, 1, clock.now()).await;
        let round = async |expiry: &TokenExpiry| round(&stores.pool, clock.now(), &stores.kafka, expiry).await.unwrap();
        clock.advance(TimeDelta::days(99));
        assert_eq!(round(&expiry).await, 0, "to the day it is still kept");
        clock.advance(TimeDelta::microseconds(1));
        assert_eq!((round(&expiry).await, left(&stores.pool).await), (1, 1));
        clock.advance(TimeDelta::days(10_000));
        assert_eq!(round(&TokenExpiry::default()).await, 0, "this log is kept for ever, and so are its tokens");
        assert_eq!((round(&expiry).await, left(&stores.pool).await), (1, 0));
    }

    #[tokio::test]
    async fn several_gateways_delete_each_token_once_and_leave_the_others() {
        let stores = TestStores::with_topics().await;
        plant(&stores.pool, 3_500, start_of_time()).await;
        plant(&stores.pool, 20, start_of_time() + DAY * 2).await;
        let before = start_of_time() + DAY;
        let (one, two, three) =
            tokio::join!(delete(&stores.pool, before), delete(&stores.pool, before), delete(&stores.pool, before));
        // Whoever meets only locked tokens ends early; the next round takes what is left.
        let late = delete(&stores.pool, before).await.unwrap();
        assert_eq!(one.unwrap() + two.unwrap() + three.unwrap() + late, 3_500);
        assert_eq!(left(&stores.pool).await, 20);
    }

    #[tokio::test]
    async fn a_running_gateway_deletes_by_itself_and_stops_with_its_handle() {
        let stores = TestStores::with_topics().await;
        plant(&stores.pool, 5, start_of_time()).await;
        let clock = Clock::manual(start_of_time() + TimeDelta::days(200));
        let task = start(stores.pool.clone(), clock, stores.kafka.clone(), TokenExpiry { click_token_keep: Some(100) });
        eventually("they are gone", || async { (left(&stores.pool).await == 0).then_some(()) }).await;
        drop(task);
    }
}
