//! Sessions of people who signed in.
//!
//! Must store only the hash of what the person holds. Nothing about a session is remembered between requests: what ends
//! in one process has ended in all.

use chrono::{DateTime, TimeDelta, Utc};
use schemas::ids::UserId;
use schemas::secrets::{PlainUserSession, SecretHash};
use sqlx::{PgExecutor, PgPool};

/// How long sessions last.
#[derive(Clone, Copy, Debug)]
pub struct Lifetimes {
    /// Since the last use.
    pub idle: TimeDelta,
    /// Since the sign-in, whatever the use.
    pub absolute: TimeDelta,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self { idle: TimeDelta::days(7), absolute: TimeDelta::days(30) }
    }
}

/// Opens a session of the usual length.
pub async fn open_session(pool: &PgPool, user: UserId, now: DateTime<Utc>) -> Result<PlainUserSession, sqlx::Error> {
    open_for(pool, user, now, Lifetimes::default()).await.map(|(session, _)| session)
}

/// Opens a session, and says until when it lasts at most.
pub(crate) async fn open_for(
    store: impl PgExecutor<'_>,
    user: UserId,
    now: DateTime<Utc>,
    lifetimes: Lifetimes,
) -> Result<(PlainUserSession, DateTime<Utc>), sqlx::Error> {
    let session = PlainUserSession::mint();
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
    .execute(store)
    .await?;
    Ok((session, expires_at))
}

/// Ends a session; one that has ended stays as it is.
pub(crate) async fn end(store: impl PgExecutor<'_>, hash: &SecretHash, now: DateTime<Utc>) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE user_sessions SET ended_at = $2 WHERE token_hash = $1 AND ended_at IS NULL")
        .bind(hash.as_bytes().as_slice())
        .bind(now)
        .execute(store)
        .await?;
    Ok(())
}

/// Notes that a session is in use; one that is over stays over.
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
