//! User sessions: every sign-in method opens one, and signing out ends it.
//!
//! A sign-in ends the caller's previous session.

use super::cookies::Cookie;
use crate::access::actor::SignedIn;
use crate::access::prelude::*;
use crate::people::user_sessions;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{AppendHeaders, IntoResponse};
use service_kit::auth::presented_session;
use sqlx::{Postgres, Transaction};

#[derive(Serialize)]
pub(crate) struct Whoami {
    user: User,
    is_operator: bool,
    /// Latest end of the session. It ends earlier if it is idle until `idle_until`.
    #[serde(serialize_with = "schemas::instant::serialize")]
    expires_at: DateTime<Utc>,
    #[serde(serialize_with = "schemas::instant::serialize")]
    idle_until: DateTime<Utc>,
    memberships: Vec<Membership>,
}

#[derive(Serialize, sqlx::FromRow)]
struct Membership {
    organization_id: Uuid,
    name: String,
    org_type: String,
    role: String,
}

/// Id, address, operator flag, expiry, idle expiry.
type Row = (Uuid, String, bool, DateTime<Utc>, DateTime<Utc>);

pub(crate) async fn show_session(
    Shared(state): Shared<Arc<State>>,
    SignedIn(member): SignedIn,
    headers: HeaderMap,
) -> Result<Json<Whoami>, ApiError> {
    let session = presented_session(&headers).ok_or_else(ApiError::unauthenticated)?;
    // Use one statement, so that the response is consistent.
    let row: Option<Row> = sqlx::query_as(
        "SELECT u.id, u.email, u.is_operator, s.expires_at, least(s.idle_until, s.expires_at) FROM user_sessions s \
         JOIN users u ON u.id = s.user_id WHERE s.token_hash = $1 AND s.ended_at IS NULL",
    )
    .bind(session.hash().as_bytes().as_slice())
    .fetch_optional(&state.pool)
    .await?;
    let (id, email, is_operator, expires_at, idle_until) = row.ok_or_else(ApiError::unauthenticated)?;
    let memberships: Vec<Membership> = sqlx::query_as(
        "SELECT o.id AS organization_id, o.name, o.org_type, m.role FROM memberships m \
         JOIN organizations o ON o.id = m.organization_id WHERE m.user_id = $1 ORDER BY o.name, o.id",
    )
    .bind(member.user_id.0)
    .fetch_all(&state.pool)
    .await?;
    Ok(Json(Whoami { user: User { id: UserId(id), email }, is_operator, expires_at, idle_until, memberships }))
}

/// Handles `DELETE /api/v1/identity/auth/session`: returns 204 once the session has ended in every process.
pub(crate) async fn end_session(
    Shared(state): Shared<Arc<State>>,
    SignedIn(_): SignedIn,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ApiError> {
    let session = presented_session(&headers).ok_or_else(ApiError::unauthenticated)?;
    let mut transaction = state.pool.begin().await?;
    user_sessions::end(&mut transaction, &session.hash(), state.now()).await?;
    transaction.commit().await?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, state.sign_in.cookies.clear(Cookie::Session))]))
}

/// Response of a sign-in (docs/api/identity.md#sign-in).
#[derive(Serialize)]
pub(super) struct SignInResponse {
    session_id: String,
    #[serde(serialize_with = "schemas::instant::serialize")]
    expires_at: DateTime<Utc>,
    user: User,
}

#[derive(Serialize)]
pub(super) struct User {
    pub(super) id: UserId,
    pub(super) email: String,
}

/// Cookies in the response: one is set, the other cleared.
pub(super) type Cookies = AppendHeaders<[(HeaderName, HeaderValue); 2]>;

/// Opens a session for `user`, who was authenticated, ends the presented one, and commits.
pub(super) async fn open(
    state: &State,
    mut transaction: Transaction<'_, Postgres>,
    user: UserId,
    headers: &HeaderMap,
) -> Result<(SignInResponse, Cookies), ApiError> {
    let now = state.now();
    if let Some(before) = presented_session(headers) {
        user_sessions::end(&mut transaction, &before.hash(), now).await?;
    }
    let lifetimes = state.sign_in.lifetimes;
    let (session, expires_at) = user_sessions::open_for(&mut transaction, user, now, lifetimes).await?;
    let email: String =
        sqlx::query_scalar("SELECT email FROM users WHERE id = $1").bind(user.0).fetch_one(&mut *transaction).await?;
    transaction.commit().await?;
    let cookies = state.sign_in.cookies;
    let set = AppendHeaders([
        (header::SET_COOKIE, cookies.set(Cookie::Session, session.reveal(), lifetimes.absolute)),
        (header::SET_COOKIE, cookies.clear(Cookie::LoginState)),
    ]);
    let opened = SignInResponse { session_id: session.reveal().to_owned(), expires_at, user: User { id: user, email } };
    Ok((opened, set))
}
