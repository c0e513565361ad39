//! The caller that closes a month: an API key with `identity:write`, or a signed-in owner of the content owner
//! (docs/api/statements.md#close-a-month).

use super::reader::{Reader, by_session, reject_named_organization};
use crate::State;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use schemas::identity::{OrgType, Role, Scope};
use schemas::problem::Code;
use service_kit::auth::{API_KEY_HEADER, Caller, Credential};
use service_kit::http::ApiError;
use service_kit::session_cookie_auth::PageOrigin;
use std::sync::Arc;

pub(crate) struct Closer(pub(crate) Reader);

impl FromRequestParts<Arc<State>> for Closer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        let reader = if parts.headers.contains_key(API_KEY_HEADER) {
            let caller = Caller::from_request_parts(parts, state).await?;
            caller.require(Scope::IdentityWrite)?;
            reject_named_organization(&parts.uri)?;
            Reader::from_caller(&caller)
        } else {
            reject_other_pages(&parts.headers, &state.origins)?;
            by_session(parts, state).await?
        };
        if reader.org_type != OrgType::ContentOwner {
            return Err(ApiError::new(Code::Forbidden, "Only content owners can close months."));
        }
        if let Credential::User(user) = reader.credential {
            let role: Option<String> =
                sqlx::query_scalar("SELECT role FROM memberships WHERE organization_id = $1 AND user_id = $2")
                    .bind(reader.org_id.0)
                    .bind(user.0)
                    .fetch_optional(&state.pool)
                    .await?;
            if role.as_deref() != Some(Role::Owner.as_str()) {
                return Err(ApiError::new(Code::Forbidden, "Only owners can close months."));
            }
        }
        Ok(Self(reader))
    }
}

/// Rejects requests that pages of other sites could send with the cookie.
fn reject_other_pages(headers: &HeaderMap, own: &[String]) -> Result<(), ApiError> {
    let is_own = PageOrigin::of(headers, own) == PageOrigin::Own;
    if headers.contains_key(header::AUTHORIZATION) || !headers.contains_key(header::COOKIE) || is_own {
        return Ok(());
    }
    let detail = "Changes with a session cookie must come from a page of this service. Otherwise, send the session as Authorization: Bearer.";
    Err(ApiError::new(Code::Forbidden, detail))
}
