//! PostgreSQL for callers that can continue without it. Queries have a short timeout and are skipped while it is unavailable.

use crate::clock::Clock;
use crate::http::ApiError;
use crate::log_throttle::LogThrottle;
use chrono::{DateTime, TimeDelta, Utc};
use schemas::problem::Code;
use sqlx::PgPool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(500);
/// Pause between queries while PostgreSQL is unavailable, so that requests don't queue behind it.
const ASK_AGAIN: TimeDelta = TimeDelta::seconds(1);

/// A pool, and whether PostgreSQL responds to one kind of query (reads may work while writes don't). Cheap to clone.
#[derive(Clone)]
pub struct OptionalPostgres {
    pool: PgPool,
    clock: Clock,
    away: Arc<Mutex<Availability>>,
}

#[derive(Default)]
struct Availability {
    /// Time of the next attempt.
    ask_at: Option<DateTime<Utc>>,
    answers: u64,
    log_throttle: LogThrottle,
}

impl Availability {
    fn is_pause(&self, now: DateTime<Utc>) -> bool {
        // If the clock was set back, the pause must not become longer.
        self.ask_at.is_some_and(|ask_at| now < ask_at && ask_at - now <= ASK_AGAIN)
    }
}

impl OptionalPostgres {
    pub fn new(pool: PgPool, clock: Clock) -> Self {
        Self { pool, clock, away: Arc::default() }
    }

    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Whether queries are currently skipped.
    pub fn is_unavailable(&self) -> bool {
        self.away.lock().expect("no holder of the lock panics").is_pause(self.clock.now())
    }

    /// Returns the result, or `None` while PostgreSQL is unavailable. Fails only if PostgreSQL returns an error.
    pub async fn query<T>(&self, question: impl Future<Output = Result<T, sqlx::Error>>) -> Result<Option<T>, ApiError> {
        let Some(before) = self.answers_if_asked() else { return Ok(None) };
        let answer = match tokio::time::timeout(PATIENCE, question).await {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(error)) => {
                let (text, error) = (error.to_string(), ApiError::from(error));
                if error.code() == Code::Unavailable {
                    self.record_failure(before, &text);
                    return Ok(None);
                }
                Err(error)
            }
            Err(_) => {
                self.record_failure(before, &format!("no response within {PATIENCE:?}"));
                return Ok(None);
            }
        };
        let mut away = self.away.lock().expect("no holder of the lock panics");
        (away.ask_at, away.answers) = (None, away.answers + 1);
        answer
    }

    /// Returns the number of responses so far, or `None` if the query should be skipped. While PostgreSQL is unavailable, one request per
    /// pause is tried and the others are skipped.
    fn answers_if_asked(&self) -> Option<u64> {
        let mut away = self.away.lock().expect("no holder of the lock panics");
        let now = self.clock.now();
        if away.is_pause(now) {
            return None;
        }
        if away.ask_at.is_some() {
            away.ask_at = Some(now + ASK_AGAIN);
        }
        Some(away.answers)
    }

    /// Records a query without a response. If other queries got a response in the meantime, PostgreSQL counts as available.
    fn record_failure(&self, answers_before: u64, why: &str) {
        let mut away = self.away.lock().expect("no holder of the lock panics");
        if away.answers == answers_before {
            away.ask_at = Some(self.clock.now() + ASK_AGAIN);
        }
        if away.log_throttle.is_due() {
            tracing::warn!("PostgreSQL did not respond in time, continuing without it: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::time::Instant;

    fn database() -> (OptionalPostgres, Clock) {
        let clock = Clock::manual(DateTime::from_timestamp(1_790_000_000, 0).unwrap());
        (OptionalPostgres::new(PgPool::connect_lazy("postgres://nobody@127.0.0.1:1/none").unwrap(), clock.clone()), clock)
    }

    async fn ask_for_nothing(database: &OptionalPostgres) {
        assert_eq!(database.query(async { panic!("this query must be skipped") }).await.unwrap(), None::<()>);
    }

    #[tokio::test]
    async fn tries_an_unavailable_database_once_per_second() {
        let (database, clock) = database();
        let begun = Instant::now();
        assert_eq!(database.query(pending::<Result<(), _>>()).await.unwrap(), None);
        assert!(begun.elapsed() >= PATIENCE);
        for _ in 0..1_000 {
            ask_for_nothing(&database).await;
        }
        assert!(database.is_unavailable());
        clock.advance(ASK_AGAIN);
        assert!(!database.is_unavailable(), "one request may try again");
        let asked = async { database.query(pending::<Result<(), _>>()).await.unwrap() };
        let others = async {
            tokio::task::yield_now().await;
            assert!(database.is_unavailable(), "another request is already trying");
            ask_for_nothing(&database).await;
        };
        assert_eq!(tokio::join!(asked, others).0, None);
        ask_for_nothing(&database).await;
        clock.advance(-TimeDelta::hours(1));
        assert_eq!(database.query(async { Ok(1) }).await.unwrap(), Some(1), "available again after the clock was set back");
        assert_eq!(database.query(async { Ok(2) }).await.unwrap(), Some(2));
    }

    #[tokio::test]
    async fn database_errors_do_not_count_as_unavailable() {
        let (database, clock) = database();
        assert!(database.query(async { Err::<(), _>(sqlx::Error::RowNotFound) }).await.is_err());
        assert_eq!(database.query(async { Ok(1) }).await.unwrap(), Some(1));
        assert_eq!(database.query(async { Err::<(), _>(sqlx::Error::PoolTimedOut) }).await.unwrap(), None);
        ask_for_nothing(&database).await;
        clock.advance(ASK_AGAIN);
        assert!(database.query(async { Err::<(), _>(sqlx::Error::RowNotFound) }).await.is_err());
        assert_eq!(database.query(async { Ok(2) }).await.unwrap(), Some(2), "an error response means that it is available");
    }

    #[tokio::test]
    async fn one_slow_query_does_not_count_as_unavailable() {
        let (database, _) = database();
        let slow = async { database.query(pending::<Result<(), _>>()).await.unwrap() };
        let quick = async { database.query(async { Ok(1) }).await.unwrap() };
        assert_eq!(tokio::join!(slow, quick), (None, Some(1)));
        assert_eq!(database.query(async { Ok(2) }).await.unwrap(), Some(2));
    }
}
