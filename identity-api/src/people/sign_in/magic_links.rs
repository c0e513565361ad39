//! Signing in by e-mail: a link that is good once, for a quarter of an hour.
//!
//! Must answer every address alike and after the same work: whether there is an account, and whether a mail goes out, is
//! told to nobody but the mailbox. A second mail leaves the first one's link valid, because mails overtake each other;
//! the first link that is redeemed voids the others of its address.

use super::{Visitor, account, page, session_response};
use crate::State;
use crate::request::bodies::{self, rule_broken};
use crate::request::email_address::EmailAddress;
use axum::Json;
use axum::body::Body;
use axum::extract::State as Shared;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use chrono::TimeDelta;
use schemas::problem::Code;
use schemas::secrets::PlainSignInToken;
use serde::Deserialize;
use serde_json::{Value, json};
use service_kit::http::{ApiError, is_form};
use sqlx::PgConnection;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

/// How long a link can be redeemed; also the time in which an account's mails are counted.
const LIFETIME: TimeDelta = TimeDelta::minutes(15);
/// Mails in the making at a time; a caller beyond that is told to come back.
const MAX_IN_THE_MAKING: usize = 256;
pub(super) const LINK: &str = "/api/v1/identity/auth/magic-link";
const VERIFY: &str = "/api/v1/identity/auth/magic-link/verify";

/// Mails that were promised.
pub(crate) struct Outbox {
    pub(super) mails: TaskTracker,
    places: Arc<Semaphore>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { mails: TaskTracker::new(), places: Arc::new(Semaphore::new(MAX_IN_THE_MAKING)) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MagicLinkRequest {
    email: Option<String>,
}

/// What is refused of a body for its own sake.
pub(crate) fn dry_run(body: &[u8]) -> Result<(), ApiError> {
    parse_address(body).map(drop)
}

fn parse_address(body: &[u8]) -> Result<EmailAddress, ApiError> {
    let email = bodies::object::<MagicLinkRequest>(body)?.email.ok_or_else(|| rule_broken("email", "email is required"))?;
    EmailAddress::parse(&email).map_err(|why| rule_broken("email", format!("email {why}")))
}

/// `POST /api/v1/identity/auth/magic-link`: 202, whoever has that address.
pub(crate) async fn send_magic_link(
    Shared(state): Shared<Arc<State>>,
    _: Visitor,
    request: Request<Body>,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let body = state.bodies.read(request).await?;
    let email = parse_address(&body)?;
    let outbox = &state.sign_in.outbox;
    let place = Arc::clone(&outbox.places).try_acquire_owned();
    let place =
        place.map_err(|_| ApiError::unavailable(anyhow::anyhow!("{MAX_IN_THE_MAKING} sign-in mails are in the making")))?;
    let sending = Arc::clone(&state);
    // Everything that depends on the address happens after the answer.
    outbox.mails.spawn(async move {
        if let Err(error) = mail_link(&sending, &email).await {
            tracing::warn!("a sign-in mail was not sent: {error:#}");
        }
        drop(place);
    });
    Ok((StatusCode::ACCEPTED, Json(json!({"status": "accepted"}))))
}

async fn mail_link(state: &State, email: &EmailAddress) -> anyhow::Result<()> {
    let token = PlainSignInToken::mint();
    if store(state, email, &token).await? {
        state.mailer.send(email, "Sign in to Content Telemetry", &text(state, &token)).await?;
    }
    Ok(())
}

/// Stores a link, unless the account got too many lately.
async fn store(state: &State, email: &EmailAddress, token: &PlainSignInToken) -> Result<bool, sqlx::Error> {
    let now = state.now();
    let mut transaction = state.pool.begin().await?;
    // Of several at once, each counts the ones before it.
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
    // What expired a day ago is of no use to anybody; a few at a time, so that nobody waits for it.
    sqlx::query(
        "DELETE FROM magic_links WHERE token_hash IN (SELECT token_hash FROM magic_links WHERE expires_at < $1 LIMIT 100)",
    )
    .bind(now - TimeDelta::days(1))
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(stored.rows_affected() == 1)
}

/// One change of an address's links at a time, until the transaction ends.
async fn lock(connection: &mut PgConnection, email: &str) -> Result<(), sqlx::Error> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('magic_links ' || $1, 0))")
        .bind(email)
        .execute(connection)
        .await?;
    Ok(())
}

/// The link first, which is all that most people want; the token stands in it, and nowhere else.
fn text(state: &State, token: &PlainSignInToken) -> String {
    let mut link = state.sign_in.page();
    link.query_pairs_mut().append_pair("token", token.reveal());
    format!(
        "You requested a link to sign in to Content Telemetry:\n\n{link}\n\n\
         The link works once and expires in {minutes} minutes. If you didn't request it, ignore this email.\n\n\
         From a script, send the token of the link as {{\"token\": \"...\"}} to\nPOST {verify}\n",
        minutes = LIFETIME.num_minutes(),
        verify = state.sign_in.address_of(VERIFY),
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Presented {
    token: Option<String>,
}

/// What is refused of a body for its own sake, as an object and as a form.
pub(crate) fn dry_run_verify(body: &[u8]) -> Result<(), ApiError> {
    let of_form = token_of_form(body).map(drop);
    if body.trim_ascii_start().starts_with(b"{") { token_of_object(body).map(drop) } else { of_form }
}

fn token_of_form(body: &[u8]) -> Result<PlainSignInToken, ApiError> {
    token(url::form_urlencoded::parse(body).find(|(name, _)| name == "token").map(|(_, token)| token.into_owned()))
}

fn token_of_object(body: &[u8]) -> Result<PlainSignInToken, ApiError> {
    token(bodies::object::<Presented>(body)?.token)
}

fn token(presented: Option<String>) -> Result<PlainSignInToken, ApiError> {
    let token = presented.ok_or_else(|| rule_broken("token", "token is required"))?;
    Ok(PlainSignInToken::presented(&token))
}

/// `POST /api/v1/identity/auth/magic-link/verify`: by a program as JSON, or by the form of our own page.
pub(crate) async fn redeem_magic_link(
    Shared(state): Shared<Arc<State>>,
    _: Visitor,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let headers = request.headers().clone();
    let is_form = is_form(&headers);
    let token = if is_form {
        state.sign_in.require_own_page(&headers)?;
        token_of_form(&state.bodies.read_form(request).await?)?
    } else {
        token_of_object(&state.bodies.read(request).await?)?
    };
    let mut transaction = state.pool.begin().await?;
    let email = redeem(&mut transaction, &state, &token).await?;
    let user = account::of_address(&mut transaction, None, &email, state.now()).await?;
    let (opened, cookies) = session_response::open(&state, transaction, user, &headers).await?;
    Ok(if is_form { (cookies, page::signed_in(email.as_str())).into_response() } else { (cookies, Json(opened)).into_response() })
}

/// The address that a link was mailed to. One statement decides, so two at once have one winner; unknown, used and
/// expired are one answer.
async fn redeem(connection: &mut PgConnection, state: &State, token: &PlainSignInToken) -> Result<EmailAddress, ApiError> {
    let hash = token.hash();
    // Links of one address are redeemed one after the other, or two at once would wait for each other to void theirs.
    let email: Option<String> = sqlx::query_scalar("SELECT email FROM magic_links WHERE token_hash = $1")
        .bind(hash.as_bytes().as_slice())
        .fetch_optional(&mut *connection)
        .await?;
    if let Some(email) = &email {
        lock(connection, email).await?;
    }
    let email: Option<String> = sqlx::query_scalar(
        "UPDATE magic_links SET redeemed_at = $2 WHERE token_hash = $1 AND redeemed_at IS NULL AND expires_at > $2 RETURNING email",
    )
    .bind(hash.as_bytes().as_slice())
    .bind(state.now())
    .fetch_optional(&mut *connection)
    .await?;
    let refuse = || ApiError::new(Code::Unauthenticated, "The sign-in token is unknown, used or expired. Request another link.");
    let email = email.as_deref().and_then(|email| EmailAddress::parse(email).ok()).ok_or_else(refuse)?;
    sqlx::query("UPDATE magic_links SET redeemed_at = $2 WHERE email = $1 AND redeemed_at IS NULL")
        .bind(email.as_str())
        .bind(state.now())
        .execute(connection)
        .await?;
    Ok(email)
}
