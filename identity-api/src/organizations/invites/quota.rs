//! Limits how many invite emails per hour a person or a partner's key can cause, and how many a mailbox gets.
//!
//! Withdrawn invites count. Organizations that anyone can create share one limit per mailbox, so that strangers can't use up others'
//! limits.

use super::Invitation;
use crate::access::hourly::{self, WINDOW};
use crate::access::prelude::*;

/// Limit per mailbox shared by all content owners without a verified domain, as a multiple of one organization's limit.
const UNVERIFIED: u32 = 4;

/// Returns the inviter, a person or a key, as stored with invites.
pub(super) fn inviter(author: Author) -> (Option<Uuid>, Option<Uuid>) {
    match author {
        Author::User(user) | Author::Operator(user) => (Some(user.0), None),
        Author::Key(key) => (None, Some(key.0)),
        Author::System => (None, None),
    }
}

/// Returns 429 above the limits. Concurrent invites count each other.
pub(super) async fn require(
    transaction: &mut PgConnection,
    invitation: &Invitation<'_>,
    author: Author,
    now: DateTime<Utc>,
) -> Result<(), ApiError> {
    let (person, key) = inviter(author);
    let (quota, email, since) = (invitation.quota, invitation.email.as_str(), now - WINDOW);
    let by = person.or(key).map(|id| id.to_string());
    // Always lock the inviter before the address.
    for whose in by.as_deref().into_iter().chain([email]) {
        sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('invites ' || $1, 0))")
            .bind(whose)
            .execute(&mut *transaction)
            .await?;
    }
    if let Some(offset) = hourly::offset(quota.of_inviter) {
        let oldest = sqlx::query_scalar(
            "SELECT created_at FROM invites WHERE (invited_by = $1 OR invited_by_key = $2) AND created_at > $3 \
             ORDER BY created_at DESC OFFSET $4 LIMIT 1",
        );
        let oldest = oldest.bind(person).bind(key).bind(since).bind(offset).fetch_optional(&mut *transaction).await?;
        hourly::refuse_until(oldest, now, "You have sent too many invites in the last hour. Try again later.")?;
    }
    let Some(offset) = hourly::offset(quota.to_address) else { return Ok(()) };
    let oldest = sqlx::query_scalar(
        "SELECT created_at FROM invites WHERE email = $1 AND (organization_id = $2 OR invited_by = $3 OR invited_by_key = $4) \
         AND created_at > $5 ORDER BY created_at DESC OFFSET $6 LIMIT 1",
    );
    let oldest = oldest.bind(email).bind(invitation.org.0).bind(person).bind(key).bind(since).bind(offset);
    let oldest = oldest.fetch_optional(&mut *transaction).await?;
    hourly::refuse_until(oldest, now, "You have invited this address too many times in the last hour. Try again later.")?;
    let Some(offset) = hourly::offset(quota.to_address.saturating_mul(UNVERIFIED)) else { return Ok(()) };
    let oldest = sqlx::query_scalar(include_str!("unverified.sql"));
    let oldest =
        oldest.bind(email).bind(invitation.org.0).bind(invitation.provisioned_by.map(|org| org.0)).bind(since).bind(offset);
    let why = "Organizations without a verified domain have invited this address too many times in the last hour. Verify a domain of \
               yours, or try again later.";
    hourly::refuse_until(oldest.fetch_optional(transaction).await?, now, why)
}
