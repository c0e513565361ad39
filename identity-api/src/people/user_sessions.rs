//! Sessions of signed-in people.
//!
//! Only the secret's hash is stored. Nothing is cached between requests, so a session that ends in one process has ended in all of them.

use crate::access::prelude::*;
use chrono::TimeDelta;
use schemas::secrets::{PlainUserSession, SecretHash};
use serde_json::Value;

#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// Since the last use.
    pub idle: TimeDelta,
    /// Since the sign-in, regardless of use.
    pub absolute: TimeDelta,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { idle: TimeDelta::days(7), absolute: TimeDelta::days(30) }
    }
}

pub async fn open_session(pool: &PgPool, user: UserId, now: DateTime<Utc>) -> Result<PlainUserSession, sqlx::Error> {
    let mut transaction = pool.begin().await?;
    let (session, _) = open_for(&mut transaction, user, now, Lifetimes::default()).await?;
    transaction.commit().await?;
    Ok(session)
}

/// Opens a session and returns when it expires at the latest.
pub(crate) async fn open_for(
    transaction: &mut PgConnection,
    user: UserId,
    now: DateTime<Utc>,
    lifetimes: Lifetimes,
) -> Result<(PlainUserSession, DateTime<Utc>), sqlx::Error> {
    let session = PlainUserSession::generate();
    let expires_at = now + lifetimes.absolute;
    sqlx::query(
        "INSERT INTO user_sessions (token_hash, user_id, created_at, expires_at, last_seen_at, idle_until) \
         VALUES ($1, $2, $3, $4, $3, $5)",
    )
    .bind(session.hash().as_bytes().as_slice())
    .bind(user.0)
    .bind(now)
    .bind(expires_at)
    .bind(now + lifetimes.idle)
    .execute(&mut *transaction)
    .await?;
    record(transaction, Author::User(user), "session.opened", user, json!({}), now).await?;
    Ok((session, expires_at))
}

/// Ends a session. An ended session stays unchanged.
pub(crate) async fn end(transaction: &mut PgConnection, hash: &SecretHash, now: DateTime<Utc>) -> Result<(), sqlx::Error> {
    let ended: Option<Uuid> =
        sqlx::query_scalar("UPDATE user_sessions SET ended_at = $2 WHERE token_hash = $1 AND ended_at IS NULL RETURNING user_id")
            .bind(hash.as_bytes().as_slice())
            .bind(now)
            .fetch_optional(&mut *transaction)
            .await?;
    let Some(user) = ended.map(UserId) else { return Ok(()) };
    record(transaction, Author::User(user), "session.ended", user, json!({}), now).await
}

/// Ends all sessions of a person who becomes an operator or stops being one.
pub(crate) async fn end_all(
    transaction: &mut PgConnection,
    author: Author,
    user: UserId,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let ended = sqlx::query("UPDATE user_sessions SET ended_at = $2 WHERE user_id = $1 AND ended_at IS NULL")
        .bind(user.0)
        .bind(now)
        .execute(&mut *transaction)
        .await?;
    if ended.rows_affected() == 0 {
        return Ok(());
    }
    record(transaction, author, "session.ended", user, json!({"sessions": ended.rows_affected()}), now).await
}

/// Records a session change under the person's id, because a session has no id.
async fn record(
    transaction: &mut PgConnection,
    author: Author,
    action: &'static str,
    user: UserId,
    detail: Value,
    now: DateTime<Utc>,
) -> Result<(), sqlx::Error> {
    let change = Change { action, object_kind: "user", object_id: user.0, detail };
    audit::record_by(transaction, author, None, now, change).await
}

/// Extends a session that is in use; ended sessions stay ended.
pub(crate) async fn touch(
    store: impl PgExecutor<'_>,
    hash: &SecretHash,
    now: DateTime<Utc>,
    lifetimes: Lifetimes,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE user_sessions SET last_seen_at = $2, idle_until = greatest(idle_until, $3) \
         WHERE token_hash = $1 AND ended_at IS NULL AND expires_at > $2 AND idle_until > $2",
    )
    .bind(hash.as_bytes().as_slice())
    .bind(now)
    .bind(now + lifetimes.idle)
    .execute(store)
    .await?;
    Ok(())
}
