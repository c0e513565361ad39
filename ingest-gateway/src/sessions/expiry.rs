//! Deletes expired click tokens and old sessions hourly, in small batches, once no replay can need them.
//!
//! A token is kept while a record with it may be on the log: a replay resolves tokens as of the event's acceptance, which may have been the
//! token's last moment. A session is kept while it has a click token, because its events can still be shown to a visitor who follows the
//! link, and while the log may contain a record whose agent must be looked up.

use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use schemas::click_tokens::CLICK_TOKEN_LIFETIME;
use service_kit::clock::Clock;
use service_kit::hourly_deletion;
use service_kit::kafka::{self, Retention};
use service_kit::settings::KafkaSettings;
use sqlx::PgPool;
use tokio_util::task::AbortOnDropHandle;

#[derive(Args, Clone, Debug, Default)]
pub struct TokenExpiry {
    /// Days to keep click tokens after creation; at least 90, plus the retention of the log [default: 120 plus the retention of
    /// the log]
    #[arg(long, env = "TELEMETRY_CLICK_TOKEN_KEEP", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(90..=36_500))]
    pub click_token_keep: Option<u32>,
}

impl TokenExpiry {
    /// How long a token is kept after its creation; `None` means forever.
    fn keep(&self, log: Retention) -> Option<TimeDelta> {
        log.retention_for(self.click_token_keep.map(|days| TimeDelta::days(days.into())), CLICK_TOKEN_LIFETIME)
    }
}

#[derive(Args, Clone, Debug, Default)]
pub struct SessionExpiry {
    /// Days to keep an agent session after it was created; sessions with click tokens, or with records in the log, are kept longer
    /// [default: forever]
    #[arg(long, env = "TELEMETRY_SESSION_KEEP", value_name = "DAYS", value_parser = clap::value_parser!(u32).range(30..=36_500))]
    pub session_keep: Option<u32>,
}

impl SessionExpiry {
    /// How long a session is kept; `None` means forever. A replay looks up a record's agent as of its acceptance.
    fn keep(&self, log: Retention) -> Option<TimeDelta> {
        log.retention_for(Some(TimeDelta::days(self.session_keep?.into())), TimeDelta::zero())
    }
}

/// Filters by expiry, because that column has an index.
const EXPIRED_TOKENS: &str = "DELETE FROM click_tokens WHERE token_hash = ANY(array( \
    SELECT token_hash FROM click_tokens WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))";
const OLD_SESSIONS: &str = "DELETE FROM sessions WHERE (organization_id, session_id) IN ( \
    SELECT s.organization_id, s.session_id FROM sessions s WHERE s.created_at < $1 AND NOT EXISTS ( \
        SELECT FROM click_tokens t WHERE t.organization_id = s.organization_id AND t.session_id = s.session_id) \
    ORDER BY s.created_at LIMIT $2 FOR UPDATE OF s SKIP LOCKED)";

/// Deletes expired tokens until the handle is dropped. Several gateways may do this, because each skips rows that another is deleting.
pub(crate) fn expire_tokens(pool: PgPool, clock: Clock, kafka: KafkaSettings, expiry: TokenExpiry) -> AbortOnDropHandle<()> {
    start("expired click tokens", EXPIRED_TOKENS, pool, clock, kafka, move |log| Some(expiry.keep(log)? - CLICK_TOKEN_LIFETIME))
}

/// Deletes old sessions until the handle is dropped. Returns `None` if sessions are kept forever.
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
    hourly_deletion::hourly(what, move || {
        let (pool, now, kafka, keep) = (pool.clone(), clock.now(), kafka.clone(), keep.clone());
        async move { round(&pool, now, &kafka, statement, keep).await }
    })
}

/// Deletes expired rows. Queries the log's retention each time, because it can change while gateways run.
async fn round(
    pool: &PgPool,
    now: DateTime<Utc>,
    kafka: &KafkaSettings,
    statement: &'static str,
    keep: impl Fn(Retention) -> Option<TimeDelta>,
) -> anyhow::Result<u64> {
    let log = kafka::retention(kafka, &kafka.topic).await?;
    let Some(before) = keep(log).and_then(|keep| now.checked_sub_signed(keep)) else { return Ok(0) };
    Ok(hourly_deletion::delete_in_batches(pool, statement, before).await?)
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
        let hashes: Vec<Vec<u8>> = (0..count).map(|_| PlainClickToken::generate().hash().as_bytes().to_vec()).collect();
        let insert = sqlx::query(
            "INSERT INTO click_tokens (token_hash, organization_id, session_id, content_url, created_at, expires_at) \
             SELECT hash, $2, $3, 'https://a.test/', $4, $5 FROM unnest($1::bytea[]) AS given (hash)",
        );
        let insert = insert.bind(hashes).bind(org).bind(session).bind(made).bind(made + CLICK_TOKEN_LIFETIME);
        insert.execute(pool).await.unwrap();
    }

    /// Inserts `count` tokens created at `made`, for a new session.
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
    fn tokens_and_sessions_outlive_records_that_need_them() {
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
    async fn deletes_tokens_only_after_their_retention() {
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
        assert_eq!(round(Some(100)).await, 0, "still kept on its last day");
        clock.advance(TimeDelta::microseconds(1));
        assert_eq!((round(Some(100)).await, tokens_left(pool).await), (1, 1));
        clock.advance(DAY * 10_000);
        assert_eq!(round(None).await, 0, "kept forever");
        let expiry = TokenExpiry { click_token_keep: Some(100) };
        let task = expire_tokens(pool.clone(), clock, stores.kafka.clone(), expiry);
        eventually("a running gateway deletes it", || async { (tokens_left(pool).await == 0).then_some(()) }).await;
        drop(task);
    }

    #[tokio::test]
    async fn concurrent_gateways_delete_each_token_once() {
        let stores = TestStores::with_topics().await;
        plant(&stores.pool, 3_500, start_of_time()).await;
        plant(&stores.pool, 20, start_of_time() + DAY * 2).await;
        let before = start_of_time() + DAY + CLICK_TOKEN_LIFETIME;
        let delete = || hourly_deletion::delete_in_batches(&stores.pool, EXPIRED_TOKENS, before);
        let (one, two, three) = tokio::join!(delete(), delete(), delete());
        // A call that finds only locked tokens ends early. The next call deletes the rest.
        let late = delete().await.unwrap();
        assert_eq!(one.unwrap() + two.unwrap() + three.unwrap() + late, 3_500);
        assert_eq!(tokens_left(&stores.pool).await, 20);
    }

    #[tokio::test]
    async fn deletes_old_sessions_without_click_tokens() {
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
        assert_eq!(hourly_deletion::delete_in_batches(pool, OLD_SESSIONS, clock.now() - DAY * 60).await.unwrap(), 1);
        assert_eq!(sessions_left(pool).await, [young]);
        assert!(start(None).is_none(), "sessions are kept by default");
    }
}
