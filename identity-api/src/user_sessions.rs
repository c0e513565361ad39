//! Sessions of people who signed in.
//!
//! Must store only the hash of what the person holds.

use chrono::{DateTime, TimeDelta, Utc};
use schemas::ids::UserId;
use schemas::secrets::PlainUserSession;
use sqlx::PgPool;

/// How long a session lasts.
pub const LIFETIME: TimeDelta = TimeDelta::days(30);

/// Opens a session.
pub async fn open_session(pool: &PgPool, user: UserId, now: DateTime<Utc>) -> Result<PlainUserSession, sqlx::Error> {
    let session = PlainUserSession::mint();
    sqlx::query("INSERT INTO user_sessions (token_hash, user_id, created_at, expires_at) VALUES ($1, $2, $3, $4)")
        .bind(session.hash().as_bytes().as_slice())
        .bind(user.0)
        .bind(now)
        .bind(now + LIFETIME)
        .execute(pool)
        .await?;
    Ok(session)
}
