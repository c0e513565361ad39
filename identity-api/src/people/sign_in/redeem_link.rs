//! Shows and redeems sign-in links.
//!
//! Opening a link doesn't redeem it, because programs that read email open links too. In any other browser than the one that requested the
//! link, people confirm its address, so that they don't sign in to an account by accident. Redeeming a link invalidates the address's other
//! links.

use super::sign_in_pages::{self, LinkPage};
use super::{Visitor, accepts, account, magic_links, requesting_browser, session};
use crate::access::prelude::*;
use crate::request::bodies::rule_broken;
use crate::request::email_address::EmailAddress;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use schemas::secrets::PlainSignInToken;
use service_kit::auth::presented_session;
use service_kit::http::is_form;

#[derive(Deserialize)]
pub(crate) struct LinkParameters {
    token: String,
}

/// The JSON response of `GET auth/magic-link`.
#[derive(Serialize)]
struct OpenedLink {
    /// Masked, as in `j…@example.com`.
    email: String,
    /// Whether the request comes from the browser that requested the link.
    is_requesting_browser: bool,
}

/// Handles `GET /api/v1/identity/auth/magic-link?token=`: returns the page for the link, as HTML or JSON.
pub(crate) async fn show_sign_in_page(
    Shared(state): Shared<Arc<State>>,
    _: Visitor,
    headers: HeaderMap,
    Parameters(LinkParameters { token }): Parameters<LinkParameters>,
) -> Result<Response, ApiError> {
    if !sign_in_pages::is_token(&token) {
        return Err(ApiError::new(Code::InvalidParameter, "The link is incomplete. Open the whole link from the email."));
    }
    let token = PlainSignInToken::presented(&token);
    let email = pending(&state.pool, &state, &token).await?;
    if accepts(&headers, "application/json") {
        let is_requesting_browser = requesting_browser::is_recognized(&state, &headers, &email);
        return Ok(Json(OpenedLink { email: email.masked(), is_requesting_browser }).into_response());
    }
    Ok(link_page(&state, &headers, &token, &email).await?.into_response())
}

async fn link_page(
    state: &State,
    headers: &HeaderMap,
    token: &PlainSignInToken,
    email: &EmailAddress,
) -> Result<LinkPage, ApiError> {
    Ok(LinkPage {
        token: token.reveal().to_owned(),
        email: email.masked(),
        is_requesting_browser: requesting_browser::is_recognized(state, headers, email),
        signed_in_as: signed_in_as(state, headers).await?,
    })
}

/// Returns the address of the request's session.
async fn signed_in_as(state: &State, headers: &HeaderMap) -> Result<Option<String>, sqlx::Error> {
    let Some(session) = presented_session(headers) else { return Ok(None) };
    sqlx::query_scalar(
        "SELECT u.email FROM user_sessions s JOIN users u ON u.id = s.user_id \
         WHERE s.token_hash = $1 AND s.ended_at IS NULL AND s.expires_at > $2 AND s.idle_until > $2",
    )
    .bind(session.hash().as_bytes().as_slice())
    .bind(state.now())
    .fetch_optional(&state.pool)
    .await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RedeemRequest {
    token: Option<String>,
    email: Option<String>,
}

/// Rejects bodies, JSON and forms, that are invalid whatever is stored.
pub(crate) fn dry_run_verify(body: &[u8]) -> Result<(), ApiError> {
    if body.trim_ascii_start().starts_with(b"{") { of_object(body).map(drop) } else { of_form(body).map(drop) }
}

/// Parses a form. Forms are always sent by a page, so the address is required.
fn of_form(body: &[u8]) -> Result<(PlainSignInToken, Option<String>), ApiError> {
    let field = |wanted: &str| {
        let mut fields = url::form_urlencoded::parse(body);
        fields.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    Ok((token(field("token"))?, Some(field("email").unwrap_or_default())))
}

/// Parses JSON. The address is optional, because other sites' pages can't send JSON here.
fn of_object(body: &[u8]) -> Result<(PlainSignInToken, Option<String>), ApiError> {
    let RedeemRequest { token: given, email } = bodies::object(body)?;
    Ok((token(given)?, email))
}

fn token(presented: Option<String>) -> Result<PlainSignInToken, ApiError> {
    let token = presented.ok_or_else(|| rule_broken("token", "token is required"))?;
    Ok(PlainSignInToken::presented(&token))
}

/// Handles `POST /api/v1/identity/auth/magic-link/verify`, with JSON from programs or a form from this service's page.
pub(crate) async fn redeem_magic_link(
    Shared(state): Shared<Arc<State>>,
    _: Visitor,
    request: Request<Body>,
) -> Result<Response, ApiError> {
    let headers = request.headers().clone();
    let is_form = is_form(&headers);
    let (token, typed) = if is_form {
        state.sign_in.require_own_page(&headers)?;
        of_form(&state.bodies.read_form(request).await?)?
    } else {
        of_object(&state.bodies.read(request).await?)?
    };
    let mut transaction = state.pool.begin().await?;
    let email = pending(&mut *transaction, &state, &token).await?;
    if !is_meant(&state, &headers, &email, typed.as_deref()) {
        if is_form {
            drop(transaction);
            return Ok(link_page(&state, &headers, &token, &email).await?.with_wrong_address());
        }
        return Err(rule_broken("email", "email must be the address that the link was sent to"));
    }
    redeem(&mut transaction, &state, &token, &email).await?;
    let user = account::find_or_create(&mut transaction, None, &email, state.now()).await?;
    let (opened, cookies) = session::open(&state, transaction, user, &headers).await?;
    Ok(if is_form {
        (cookies, sign_in_pages::signed_in(email.as_str())).into_response()
    } else {
        (cookies, Json(opened)).into_response()
    })
}

/// Returns whether the person at the browser wants to sign in with this address.
fn is_meant(state: &State, headers: &HeaderMap, email: &EmailAddress, typed: Option<&str>) -> bool {
    let Some(typed) = typed else { return true };
    let is_typed = EmailAddress::parse(typed.trim()).is_ok_and(|typed| typed == *email);
    is_typed || requesting_browser::is_recognized(state, headers, email)
}

fn refuse() -> ApiError {
    ApiError::new(Code::Unauthenticated, "The sign-in token is unknown, used or expired. Request another link.")
}

/// Returns the address that a link was sent to. Unknown, used and expired links get the same error.
async fn pending(store: impl PgExecutor<'_>, state: &State, token: &PlainSignInToken) -> Result<EmailAddress, ApiError> {
    let email: Option<String> =
        sqlx::query_scalar("SELECT email FROM magic_links WHERE token_hash = $1 AND redeemed_at IS NULL AND expires_at > $2")
            .bind(token.hash().as_bytes().as_slice())
            .bind(state.now())
            .fetch_optional(store)
            .await?;
    email.and_then(|email| EmailAddress::parse(&email).ok()).ok_or_else(refuse)
}

/// Redeems a link and invalidates the address's other links. Uses a single statement, so only one of two concurrent calls succeeds.
async fn redeem(
    connection: &mut PgConnection,
    state: &State,
    token: &PlainSignInToken,
    email: &EmailAddress,
) -> Result<(), ApiError> {
    // Serialize by address. Otherwise two concurrent redemptions would deadlock when invalidating each other's link.
    magic_links::lock(connection, email.as_str()).await?;
    let redeemed =
        sqlx::query("UPDATE magic_links SET redeemed_at = $2 WHERE token_hash = $1 AND redeemed_at IS NULL AND expires_at > $2")
            .bind(token.hash().as_bytes().as_slice())
            .bind(state.now())
            .execute(&mut *connection)
            .await?;
    if redeemed.rows_affected() == 0 {
        return Err(refuse());
    }
    sqlx::query("UPDATE magic_links SET redeemed_at = $2 WHERE email = $1 AND redeemed_at IS NULL")
        .bind(email.as_str())
        .bind(state.now())
        .execute(connection)
        .await?;
    Ok(())
}
