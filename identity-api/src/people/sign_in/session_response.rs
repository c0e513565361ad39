//! The answer of every way in: the session, once, as JSON and as a cookie.
//!
//! Must end the session that the caller came with: nobody goes on with one from before the sign-in.

use super::cookies::Cookie;
use crate::State;
use crate::people::user_sessions;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::AppendHeaders;
use chrono::{DateTime, Utc};
use schemas::ids::UserId;
use serde::Serialize;
use service_kit::auth::presented_session;
use service_kit::http::ApiError;
use sqlx::{Postgres, Transaction};

/// The 200 of a sign-in (docs/api/identity.md#sign-in).
#[derive(Serialize)]
pub(super) struct Opened {
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

/// The cookies that go with it: one is set, the other taken back.
pub(super) type Cookies = AppendHeaders<[(HeaderName, HeaderValue); 2]>;

/// Opens the session of somebody who has proved to be `user`, in place of the one presented, and commits.
pub(super) async fn open(
    state: &State,
    mut transaction: Transaction<'_, Postgres>,
    user: UserId,
    headers: &HeaderMap,
) -> Result<(Opened, Cookies), ApiError> {
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
        (header::SET_COOKIE, cookies.clear(Cookie::Journey)),
    ]);
    let opened = Opened { session_id: session.reveal().to_owned(), expires_at, user: User { id: user, email } };
    Ok((opened, set))
}
