//! Emails sign-in links, which work once and expire after 15 minutes (docs/api/identity.md#sign-in).
//!
//! Every address gets the same response after the same work, so only the mailbox shows whether an account exists and whether an email was
//! sent. A second email leaves the first link valid, because emails can arrive out of order.

use super::requesting_browser::LIFETIME;
use super::{Visitor, requesting_browser};
use crate::access::prelude::*;
use crate::request::bodies::rule_broken;
use crate::request::email_address::EmailAddress;
use axum::http::header;
use axum::response::IntoResponse;
use schemas::secrets::PlainSignInToken;
use service_kit::client_address::ClientAddress;
use service_kit::slots::{NoSlot, Pool, Slots};
use std::time::Duration;
use tokio_util::task::TaskTracker;

/// Maximum number of emails sent concurrently, divided among client addresses.
const MAX_CONCURRENT_EMAILS: usize = 256;
const RETRY_AFTER: Duration = Duration::from_secs(1);
pub(super) const LINK: &str = "/api/v1/identity/auth/magic-link";
const VERIFY: &str = "/api/v1/identity/auth/magic-link/verify";

pub(crate) struct LinkEmails {
    pub(super) mails: TaskTracker,
    slots: Arc<Slots<ClientAddress>>,
}

impl Default for LinkEmails {
    fn default() -> Self {
        Self { mails: TaskTracker::new(), slots: Slots::new(Pool::SignInMails, MAX_CONCURRENT_EMAILS) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MagicLinkRequest {
    email: Option<String>,
}

pub(crate) fn parse_address(body: &[u8]) -> Result<EmailAddress, ApiError> {
    let email = bodies::object::<MagicLinkRequest>(body)?.email.ok_or_else(|| rule_broken("email", "email is required"))?;
    EmailAddress::parse(&email).map_err(|why| rule_broken("email", format!("email {why}")))
}

/// Handles `POST /api/v1/identity/auth/magic-link`: returns 202, whether or not there is an account.
pub(crate) async fn send_magic_link(
    Shared(state): Shared<Arc<State>>,
    Visitor(address): Visitor,
    request: Request<Body>,
) -> Result<impl IntoResponse, ApiError> {
    let body = state.bodies.read(request).await?;
    let email = parse_address(&body)?;
    let outbox = &state.sign_in.outbox;
    let slot = outbox.slots.take(address, usize::MAX).map_err(no_slot)?;
    let cookie = requesting_browser::remember(&state, &email)?;
    let sending = Arc::clone(&state);
    // Everything that depends on the address happens after the response.
    outbox.mails.spawn(async move {
        if let Err(error) = mail_link(&sending, &email).await {
            tracing::warn!("failed to send a sign-in email: {error:#}");
        }
        drop(slot);
    });
    Ok((StatusCode::ACCEPTED, [(header::SET_COOKIE, cookie)], Json(json!({"status": "accepted"}))))
}

fn no_slot(why: NoSlot) -> ApiError {
    match why {
        NoSlot::OwnShare => {
            let detail =
                "Too many sign-in emails are being sent from this address. Wait for the time in Retry-After, then try again.";
            ApiError::new(Code::TooManyRequests, detail).retry_after(RETRY_AFTER)
        }
        NoSlot::AllTaken => ApiError::unavailable(anyhow::anyhow!("already sending {MAX_CONCURRENT_EMAILS} sign-in emails")),
    }
}

async fn mail_link(state: &State, email: &EmailAddress) -> anyhow::Result<()> {
    let token = PlainSignInToken::generate();
    if store(state, email, &token).await? {
        state.mailer.send(email, "Sign in to Content Telemetry", &text(state, &token)).await?;
    }
    Ok(())
}

/// Stores a link, unless the account reached its limit of recent emails.
async fn store(state: &State, email: &EmailAddress, token: &PlainSignInToken) -> Result<bool, sqlx::Error> {
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    // Concurrent requests count each other.
    lock(&mut transaction, email.as_str()).await?;
    let stored = sqlx::query(
        "INSERT INTO magic_links (token_hash, email, created_at, expires_at) SELECT $1, $2, $3, $4 \
         WHERE (SELECT count(*) FROM magic_links WHERE email = $2 AND created_at > $5) < $6",
    )
    .bind(token.hash().as_bytes().as_slice())
    .bind(email.as_str())
    .bind(now)
    .bind(now + LIFETIME)
    .bind(now - LIFETIME)
    .bind(i64::from(state.sign_in.mails_per_account))
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(stored.rows_affected() == 1)
}

/// Serializes changes to an address's links until the transaction ends.
pub(super) async fn lock(connection: &mut PgConnection, email: &str) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('magic_links ' || $1, 0))")
        .bind(email)
        .execute(connection)
        .await?;
    Ok(())
}

/// Puts the link first. Only the link contains the token.
fn text(state: &State, token: &PlainSignInToken) -> String {
    let mut link = state.sign_in.page();
    link.query_pairs_mut().append_pair("token", token.reveal());
    format!(
        "You requested a link to sign in to Content Telemetry:\n\n{link}\n\n\
         The link works once and expires in {minutes} minutes. In another browser, you confirm your email address first. \
         If you didn't request the link, ignore this email.\n\n\
         From a script, send the token of the link as {{\"token\": \"...\"}} to\nPOST {verify}\n",
        minutes = LIFETIME.num_minutes(),
        verify = state.sign_in.address_of(VERIFY),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    #[test]
    fn f53_emails_to_one_address_leave_slots_for_others() {
        let outbox = LinkEmails::default();
        let take = |host| outbox.slots.take(ClientAddress::from(IpAddr::from([192, 0, 2, host])), usize::MAX);
        let busy: Vec<_> = (0..1_000).map_while(|_| take(1).ok()).collect();
        assert_eq!(busy.len(), MAX_CONCURRENT_EMAILS / 2);
        assert_eq!(no_slot(take(1).unwrap_err()).code(), Code::TooManyRequests);
        assert!(take(2).is_ok());
    }
}
