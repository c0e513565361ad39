//! A signed-in operator, who can read how much each organization uses, but not its data.

use super::reader::session_user;
use crate::State;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use schemas::ids::UserId;
use schemas::problem::Code;
use service_kit::auth::API_KEY_HEADER;
use service_kit::http::ApiError;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operator(pub(crate) UserId);

impl FromRequestParts<Arc<State>> for Operator {
    type Rejection = ApiError;

    /// Rejects keys, even next to a session.
    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        if parts.headers.contains_key(API_KEY_HEADER) {
            return Err(ApiError::unauthenticated());
        }
        let (person, _) = session_user(parts, state).await?;
        let found = sqlx::query_scalar("SELECT is_operator FROM users WHERE id = $1").bind(person.user_id.0);
        if found.fetch_one(&state.pool).await? {
            Ok(Self(person.user_id))
        } else {
            Err(ApiError::new(Code::Forbidden, "Only operators can do this."))
        }
    }
}
