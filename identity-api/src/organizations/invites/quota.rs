//! How many mails one person, or one key of a partner, may have invites send, and how many one mailbox gets, within an
//! hour.
//!
//! Must count what was written down, whatever became of it: withdrawing an invite gives nothing back.

use crate::access::prelude::*;
use crate::people::sign_in::InviteQuota;
use chrono::TimeDelta;

const WINDOW: TimeDelta = TimeDelta::hours(1);

/// Who invites, as their invites name them: a person or a key.
pub(super) fn inviter(author: Author) -> (Option<Uuid>, Option<Uuid>) {
    match author {
        Author::User(user) | Author::Operator(user) => (Some(user.0), None),
        Author::Key(key) => (None, Some(key.0)),
        Author::System => (None, None),
    }
}

/// Refuses an invite too many; of several at once, each counts the ones before it.
pub(super) async fn require(
    transaction: &mut PgConnection,
    quota: InviteQuota,
    author: Author,
    email: &str,
    now: DateTime<Utc>,
) -> Result<(), ApiError> {
    let (person, key) = inviter(author);
    let by = person.or(key).map(|id| id.to_string());
    // In this order everywhere: who invites, then the address.
    for whose in by.as_deref().into_iter().chain([email]) {
        sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('invites ' || $1, 0))")
            .bind(whose)
            .execute(&mut *transaction)
            .await?;
    }
    let nth = |limit: u32| i64::from(limit).saturating_sub(1);
    if quota.of_inviter > 0 {
        // The one that has to grow old before there is room for another.
        let oldest: Option<DateTime<Utc>> = sqlx::query_scalar(
            "SELECT created_at FROM invites WHERE (invited_by = $1 OR invited_by_key = $2) AND created_at > $3 \
             ORDER BY created_at DESC OFFSET $4 LIMIT 1",
        )
        .bind(person)
        .bind(key)
        .bind(now - WINDOW)
        .bind(nth(quota.of_inviter))
        .fetch_optional(&mut *transaction)
        .await?;
        refuse_until(oldest, now, "You have sent too many invites in the last hour. Try again later.")?;
    }
    if quota.to_address > 0 {
        let oldest: Option<DateTime<Utc>> = sqlx::query_scalar(
            "SELECT created_at FROM invites WHERE email = $1 AND created_at > $2 ORDER BY created_at DESC OFFSET $3 LIMIT 1",
        )
        .bind(email)
        .bind(now - WINDOW)
        .bind(nth(quota.to_address))
        .fetch_optional(transaction)
        .await?;
        refuse_until(oldest, now, "This address was invited too many times in the last hour. Try again later.")?;
    }
    Ok(())
}

fn refuse_until(oldest: Option<DateTime<Utc>>, now: DateTime<Utc>, why: &str) -> Result<(), ApiError> {
    let Some(oldest) = oldest else { return Ok(()) };
    let wait = (oldest + WINDOW - now).to_std().unwrap_or_default();
    Err(ApiError::new(Code::TooManyRequests, why).retry_after(wait))
}
