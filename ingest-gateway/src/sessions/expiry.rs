//! Expired click tokens and old sessions are deleted, hourly and in small batches, once no replay can need them.
//!
//! A token stays while a record that names it may be on the log: a replay looks tokens up as of the acceptance of their event, which
//! may have been at the last moment of the token. A session stays while a click token of it is left, because whoever follows the
//! link may still be shown its events, and while a record that leaves its agent to be looked up may be on a log that ends at all.

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

/// How long sessions are kept.
#[derive(Args, Clone, Debug, Default)]
pub struct SessionExpiry {
    /// Days after it was first heard of that a session is deleted, once no click token of it is left, and not before its records
    /// have left a log that drops them; its events stay, and one that names it later makes it anew [default: for ever]
    #[arg(long, env = "TELEMETRY_SESSION_KEEP", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(30..=36_500))]
    pub session_keep: Option<u32>,
}

impl SessionExpiry {
    /// For how long a session is kept; `None` is for ever. A record asks for its agent as of its acceptance.
    fn keep(&self, log: Retention) -> Option<TimeDelta> {
        log.outlived(Some(TimeDelta::days(self.session_keep?.into())), TimeDelta::zero())
    }
}

/// By their expiry, which has the index.
const EXPIRED_TOKENS: &str = "DELETE FROM click_tokens WHERE token_hash = ANY(array( \
    SELECT token_hash FROM click_tokens WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))";
const OLD_SESSIONS: &str = "DELETE FROM sessions WHERE (organization_id, session_id) IN ( \
    SELECT s.organization_id, s.session_id FROM sessions s WHERE s.created_at < $1 AND NOT EXISTS ( \
        SELECT FROM click_tokens t WHERE t.organization_id = s.organization_id AND t.session_id = s.session_id) \
    ORDER BY s.created_at LIMIT $2 FOR UPDATE OF s SKIP LOCKED)";

/// Deletes expired tokens for as long as the handle lives. Several gateways may: they pass over what another is deleting.
pub(crate) fn expire_tokens(pool: PgPool, clock: Clock, kafka: KafkaSettings, expiry: TokenExpiry) -> AbortOnDropHandle<()> {
    start("expired click tokens", EXPIRED_TOKENS, pool, clock, kafka, move |log| Some(expiry.keep(log)? - CLICK_TOKEN_LIFETIME))
}

/// Deletes old sessions for as long as the handle lives, unless they are kept for ever.
pub(crate) fn expire_sessions(
    pool: PgPool,
    clock: Clock,
    kafka: KafkaSettings,
    expiry: SessionExpiry,
) -> Option<AbortOnDropHandle<()>> {
    expiry.session_keep?;
    Some(start("old sessions", OLD_SESSIONS, pool, clock, kafka, move |log| expiry.keep(log)))
}

fn start<K>(
    what: &'static str,
    statement: &'static str,
    pool: PgPool,
    clock: Clock,
    kafka: KafkaSettings,
    keep: K,
) -> AbortOnDropHandle<()>
where
    K: Fn(Retention) -> Option<TimeDelta> + Clone + Send + 'static,
{
    housekeeping::hourly(what, move || {
        let (pool, now, kafka, keep) = (pool.clone(), clock.now(), kafka.clone(), keep.clone());
        async move { round(&pool, now, &kafka, statement, keep).await }
    })
}

/// Deletes what may be deleted now. Asks the log each time: its retention may be changed while gateways run.
async fn round(
    pool: &PgPool,
    now: DateTime<Utc>,
    kafka: &KafkaSettings,
    statement: &'static str,
    keep: impl Fn(Retention) -> Option<TimeDelta>,
) -> anyhow::Result<u64> {
    let log = kafka::retention(kafka, &kafka.topic).await?;
    let Some(before) = keep(log).and_then(|keep| now.checked_sub_signed(keep)) else { return Ok(0) };
    Ok(housekeeping::delete_in_batches(pool, statement, before).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::identity::OrgType;
    use schemas::secrets::PlainClickToken;
    use service_kit::testing::{Seed, TestStores, eventually};
    use std::time::Duration;
    use uuid::Uuid;

    const DAY: TimeDelta = TimeDelta::days(1);

    fn start_of_time() -> DateTime<Utc> {
        DateTime::from_timestamp(1_790_000_000, 0).unwrap()
    }

    fn for_days(days: u64) -> Retention {
        Retention::For(Duration::from_secs(days * 86_400))
    }

    async fn plant_session(pool: &PgPool, org: Uuid, made: DateTime<Utc>) -> Uuid {
        let session = Uuid::new_v4();
        let statement = "INSERT INTO sessions (organization_id, session_id, created_at) VALUES ($1, $2, $3)";
        sqlx::query(statement).bind(org).bind(session).bind(made).execute(pool).await.unwrap();
        session
    }

    async fn plant_tokens(pool: &PgPool, org: Uuid, session: Uuid, count: i32, made: DateTime<Utc>) {
        let hashes: Vec<Vec<u8>> = (0..count).map(|_| PlainClickToken::mint().hash().as_bytes().to_vec()).collect();
        let insert = sqlx::query(
            "INSERT INTO click_tokens (token_hash, organization_id, session_id, content_url, created_at, expires_at) \
             SELECT hash, $2, $3, 'https://a.test/', $4, $5 FROM unnest($1::bytea[]) AS given (hash)",
        );
        let insert = insert.bind(hashes).bind(org).bind(session).bind(made).bind(made + CLICK_TOKEN_LIFETIME);
        insert.execute(pool).await.unwrap();
    }

    /// `count` tokens made then, of a session of their own.
    async fn plant(pool: &PgPool, count: i32, made: DateTime<Utc>) {
        let org = Seed(pool).org("agent", OrgType::Agent).await.id.0;
        let session = plant_session(pool, org, made).await;
        plant_tokens(pool, org, session, count, made).await;
    }

    async fn tokens_left(pool: &PgPool) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM click_tokens").fetch_one(pool).await.unwrap()
    }

    async fn sessions_left(pool: &PgPool) -> Vec<Uuid> {
        sqlx::query_scalar("SELECT session_id FROM sessions ORDER BY created_at").fetch_all(pool).await.unwrap()
    }

    #[test]
    fn tokens_and_sessions_outlive_every_record_that_may_need_them() {
        for (wish, log, expected) in [
            (None, Retention::ForEver, None),
            (Some(95), Retention::ForEver, Some(95)),
            (None, for_days(7), Some(127)),
            (Some(95), for_days(7), Some(127)),
            (Some(500), for_days(7), Some(500)),
            (Some(90), for_days(0), Some(120)),
            (Some(90), Retention::For(Duration::MAX), None),
        ] {
            let kept = TokenExpiry { click_token_keep: wish }.keep(log);
            assert_eq!(kept, expected.map(TimeDelta::days), "{wish:?} {log:?}");
        }
        for (wish, log, expected) in [
            (Some(40), Retention::ForEver, Some(40)),
            (Some(40), for_days(7), Some(40)),
            (Some(30), for_days(90), Some(120)),
            (Some(30), Retention::For(Duration::MAX), None),
            (None, for_days(7), None),
        ] {
            let kept = SessionExpiry { session_keep: wish }.keep(log);
            assert_eq!(kept, expected.map(TimeDelta::days), "{wish:?} {log:?}");
        }
    }

    #[tokio::test]
    async fn a_token_goes_when_its_time_is_over_and_not_before() {
        let stores = TestStores::with_topics().await;
        let (pool, clock) = (&stores.pool, Clock::manual(start_of_time()));
        plant(pool, 1, clock.now()).await;
        clock.advance(DAY);
        plant(pool, 1, clock.now()).await;
        let round = async |days: Option<i64>| {
            let keep = move |_| days.map(|days| TimeDelta::days(days) - CLICK_TOKEN_LIFETIME);
            round(pool, clock.now(), &stores.kafka, EXPIRED_TOKENS, keep).await.unwrap()
        };
        clock.advance(DAY * 99);
        assert_eq!(round(Some(100)).await, 0, "to the day it is still kept");
        clock.advance(TimeDelta::microseconds(1));
        assert_eq!((round(Some(100)).await, tokens_left(pool).await), (1, 1));
        clock.advance(DAY * 10_000);
        assert_eq!(round(None).await, 0, "kept for ever");
        let expiry = TokenExpiry { click_token_keep: Some(100) };
        let task = expire_tokens(pool.clone(), clock, stores.kafka.clone(), expiry);
        eventually("a running gateway deletes by itself", || async { (tokens_left(pool).await == 0).then_some(()) }).await;
        drop(task);
    }

    #[tokio::test]
    async fn several_gateways_delete_each_token_once_and_leave_the_others() {
        let stores = TestStores::with_topics().await;
        plant(&stores.pool, 3_500, start_of_time()).await;
        plant(&stores.pool, 20, start_of_time() + DAY * 2).await;
        let before = start_of_time() + DAY + CLICK_TOKEN_LIFETIME;
        let delete = || housekeeping::delete_in_batches(&stores.pool, EXPIRED_TOKENS, before);
        let (one, two, three) = tokio::join!(delete(), delete(), delete());
        // Whoever meets only locked tokens ends early; the next round takes what is left.
        let late = delete().await.unwrap();
        assert_eq!(one.unwrap() + two.unwrap() + three.unwrap() + late, 3_500);
        assert_eq!(tokens_left(&stores.pool).await, 20);
    }

    #[tokio::test]
    async fn an_old_session_goes_once_no_click_token_of_it_is_left_and_a_younger_one_stays() {
        let stores = TestStores::with_topics().await;
        let (pool, clock) = (&stores.pool, Clock::manual(start_of_time()));
        let org = Seed(pool).org("agent", OrgType::Agent).await.id.0;
        let [_old, linked, young] = [
            plant_session(pool, org, clock.now() - DAY * 61).await,
            plant_session(pool, org, clock.now() - DAY * 61).await,
            plant_session(pool, org, clock.now() - DAY * 59).await,
        ];
        plant_tokens(pool, org, linked, 1, clock.now()).await;
        let start =
            |session_keep| expire_sessions(pool.clone(), clock.clone(), stores.kafka.clone(), SessionExpiry { session_keep });
        let task = start(Some(60));
        eventually("the first round is done", || async { (sessions_left(pool).await == [linked, young]).then_some(()) }).await;
        drop(task);
        sqlx::query("DELETE FROM click_tokens").execute(pool).await.unwrap();
        assert_eq!(housekeeping::delete_in_batches(pool, OLD_SESSIONS, clock.now() - DAY * 60).await.unwrap(), 1);
        assert_eq!(sessions_left(pool).await, [young]);
        assert!(start(None).is_none(), "unasked, all are kept");
    }
}
