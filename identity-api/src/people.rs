//! People who signed in. A handler states which kind it serves as an argument type: anybody, or an operator.
//!
//! Must not let a key stand in for a person.

use crate::State;
use crate::audit::Author;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use schemas::ids::UserId;
use schemas::problem::Code;
use service_kit::auth::{API_KEY_HEADER, presented_session};
use service_kit::directory::HasDirectory;
use service_kit::http::ApiError;
use sqlx::{PgConnection, PgPool};
use std::sync::Arc;
use uuid::Uuid;

/// Somebody with a session.
#[derive(Clone, Debug)]
pub(crate) struct SignedIn {
    pub(crate) user_id: UserId,
    pub(crate) email: String,
    is_operator: bool,
}

/// Somebody with a session who is an operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operator(pub(crate) UserId);

impl SignedIn {
    pub(crate) fn author(&self) -> Author {
        Author::User(self.user_id)
    }
}

impl FromRequestParts<Arc<State>> for SignedIn {
    type Rejection = ApiError;

    /// A key, when one is presented, decides alone, and here it decides for 401.
    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        if parts.headers.contains_key(API_KEY_HEADER) {
            return Err(ApiError::unauthenticated());
        }
        let session = presented_session(&parts.headers).ok_or_else(ApiError::unauthenticated)?;
        let member = state.directory().find_user_session(&session.hash(), state.clock.now()).await?;
        let user_id = member.ok_or_else(ApiError::unauthenticated)?.user_id;
        let (email, is_operator): (String, bool) =
            sqlx::query_as("SELECT email, is_operator FROM users WHERE id = $1").bind(user_id.0).fetch_one(&state.pool).await?;
        Ok(Self { user_id, email, is_operator })
    }
}

impl FromRequestParts<Arc<State>> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        let person = SignedIn::from_request_parts(parts, state).await?;
        if person.is_operator { Ok(Self(person.user_id)) } else { Err(operators_only()) }
    }
}

fn operators_only() -> ApiError {
    ApiError::new(Code::Forbidden, "Only an operator may do this.")
}

/// The operator with this address, when there is one.
#[expect(dead_code, reason = "the admin command line follows")]
pub(crate) async fn find_operator(pool: &PgPool, email: &str) -> Result<Option<UserId>, sqlx::Error> {
    let id: Option<Uuid> =
        sqlx::query_scalar("SELECT id FROM users WHERE email = $1 AND is_operator").bind(email).fetch_optional(pool).await?;
    Ok(id.map(UserId))
}

/// The person with this address, who may not have signed in yet.
#[expect(dead_code, reason = "the admin command line follows")]
pub(crate) async fn ensure(transaction: &mut PgConnection, email: &str) -> Result<UserId, sqlx::Error> {
    // The update changes nothing; it makes the statement return the row that is there.
    let id: Uuid = sqlx::query_scalar(
        "INSERT INTO users (email) VALUES ($1) ON CONFLICT (email) DO UPDATE SET email = excluded.email RETURNING id",
    )
    .bind(email)
    .fetch_one(transaction)
    .await?;
    Ok(UserId(id))
}
