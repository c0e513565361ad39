//! PostgreSQL for whoever goes on without its answer: no request waits long for it, and while it is away hardly any waits.

use crate::clock::Clock;
use crate::http::ApiError;
use crate::log_throttle::LogThrottle;
use chrono::{DateTime, TimeDelta, Utc};
use schemas::problem::Code;
use sqlx::PgPool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(500);
/// Pause between questions while PostgreSQL is away, so that requests do not queue behind it.
const ASK_AGAIN: TimeDelta = TimeDelta::seconds(1);

/// A pool, and whether PostgreSQL answers one kind of question: it may go on reading while it cannot write. Cheap to share.
#[derive(Clone)]
pub struct Database {
    pool: PgPool,
    clock: Clock,
    away: Arc<Mutex<Away>>,
}

#[derive(Default)]
struct Away {
    /// Nobody asks before.
    ask_at: Option<DateTime<Utc>>,
    answers: u64,
    said: LogThrottle,
}

impl Away {
    fn is_pause(&self, now: DateTime<Utc>) -> bool {
        // A clock that was set back must not make the pause longer.
        self.ask_at.is_some_and(|ask_at| now < ask_at && ask_at - now <= ASK_AGAIN)
    }
}

impl Database {
    pub fn new(pool: PgPool, clock: Clock) -> Self {
        Self { pool, clock, away: Arc::default() }
    }

    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Whether a question would get no answer now, nor be asked.
    pub fn is_away(&self) -> bool {
        self.away.lock().expect("no holder of the lock panics").is_pause(self.clock.now())
    }

    /// The answer; none while PostgreSQL is away. The error is what PostgreSQL refuses when it is there.
    pub async fn ask<T>(&self, question: impl Future<Output = Result<T, sqlx::Error>>) -> Result<Option<T>, ApiError> {
        let Some(before) = self.answers_if_asked() else { return Ok(None) };
        let answer = match tokio::time::timeout(PATIENCE, question).await {
            Ok(Ok(answer)) => Ok(Some(answer)),
            Ok(Err(error)) => {
                let (text, error) = (error.to_string(), ApiError::from(error));
                if error.code() == Code::Unavailable {
                    self.unanswered(before, &text);
                    return Ok(None);
                }
                Err(error)
            }
            Err(_) => {
                self.unanswered(before, &format!("no answer within {PATIENCE:?}"));
                return Ok(None);
            }
        };
        let mut away = self.away.lock().expect("no holder of the lock panics");
        (away.ask_at, away.answers) = (None, away.answers + 1);
        answer
    }

    /// How many questions were answered before; none when this one is not to be asked. Always, but while PostgreSQL is away:
    /// then one request after each pause, and the others go on without.
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

    /// A question without an answer; one that others were answered beside does not mean that PostgreSQL is away.
    fn unanswered(&self, answers_before: u64, why: &str) {
        let mut away = self.away.lock().expect("no holder of the lock panics");
        if away.answers == answers_before {
            away.ask_at = Some(self.clock.now() + ASK_AGAIN);
        }
        if away.said.is_due() {
            tracing::warn!("PostgreSQL does not answer in time, and requests go on without: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::time::Instant;

    fn database() -> (Database, Clock) {
        let clock = Clock::manual(DateTime::from_timestamp(1_790_000_000, 0).unwrap());
        (Database::new(PgPool::connect_lazy("postgres://nobody@127.0.0.1:1/none").unwrap(), clock.clone()), clock)
    }

    async fn ask_for_nothing(database: &Database) {
        assert_eq!(database.ask(async { panic!("nobody asks") }).await.unwrap(), None::<()>);
    }

    #[tokio::test]
    async fn while_postgres_is_away_one_request_a_second_waits_for_it_and_no_other() {
        let (database, clock) = database();
        let begun = Instant::now();
        assert_eq!(database.ask(pending::<Result<(), _>>()).await.unwrap(), None);
        assert!(begun.elapsed() >= PATIENCE);
        for _ in 0..1_000 {
            ask_for_nothing(&database).await;
        }
        assert!(database.is_away());
        clock.advance(ASK_AGAIN);
        assert!(!database.is_away(), "somebody may try");
        let asked = async { database.ask(pending::<Result<(), _>>()).await.unwrap() };
        let others = async {
            tokio::task::yield_now().await;
            assert!(database.is_away(), "while another tries");
            ask_for_nothing(&database).await;
        };
        assert_eq!(tokio::join!(asked, others).0, None);
        ask_for_nothing(&database).await;
        clock.advance(-TimeDelta::hours(1));
        assert_eq!(database.ask(async { Ok(1) }).await.unwrap(), Some(1), "the clock was set back, and it is there again");
        assert_eq!(database.ask(async { Ok(2) }).await.unwrap(), Some(2));
    }

    #[tokio::test]
    async fn what_postgres_refuses_is_an_error_and_does_not_mean_that_it_is_away() {
        let (database, clock) = database();
        assert!(database.ask(async { Err::<(), _>(sqlx::Error::RowNotFound) }).await.is_err());
        assert_eq!(database.ask(async { Ok(1) }).await.unwrap(), Some(1));
        assert_eq!(database.ask(async { Err::<(), _>(sqlx::Error::PoolTimedOut) }).await.unwrap(), None);
        ask_for_nothing(&database).await;
        clock.advance(ASK_AGAIN);
        assert!(database.ask(async { Err::<(), _>(sqlx::Error::RowNotFound) }).await.is_err());
        assert_eq!(database.ask(async { Ok(2) }).await.unwrap(), Some(2), "it has answered, if with a refusal");
    }

    #[tokio::test]
    async fn a_question_that_others_were_answered_beside_does_not_mean_that_postgres_is_away() {
        let (database, _) = database();
        let slow = async { database.ask(pending::<Result<(), _>>()).await.unwrap() };
        let quick = async { database.ask(async { Ok(1) }).await.unwrap() };
        assert_eq!(tokio::join!(slow, quick), (None, Some(1)));
        assert_eq!(database.ask(async { Ok(2) }).await.unwrap(), Some(2));
    }
}
