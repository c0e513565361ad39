//! Turns the session cookie into a bearer token before every handler, and records the session's use afterwards.
//!
//! Rejects changes requested by other sites' pages, because browsers add the cookie to their requests too. Handlers never see cookies.

use super::SignIn;
use crate::access::prelude::*;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use service_kit::auth::{API_KEY_HEADER, presented_session};
use service_kit::session_cookie_auth::{self, PageOrigin};

/// Layer around every route.
pub(crate) async fn guard(Shared(state): Shared<Arc<State>>, mut request: Request, next: Next) -> Response {
    let is_safe = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    if let Err(refusal) = state.sign_in.admit(is_safe, request.headers_mut()) {
        return refusal.into_response();
    }
    // A key takes precedence, so the session next to it is not used.
    let is_by_key = request.headers().contains_key(API_KEY_HEADER);
    let session = presented_session(request.headers()).filter(|_| !is_by_key);
    let response = next.run(request).await;
    if let Some(session) = session.filter(|_| response.status() != StatusCode::UNAUTHORIZED) {
        state.sign_in.seen.note(&state, session.hash()).await;
    }
    response
}

impl SignIn {
    fn admit(&self, is_safe: bool, headers: &mut HeaderMap) -> Result<(), ApiError> {
        // Other sites' pages can't add a key or a bearer token, so these requests need no check.
        if headers.contains_key(API_KEY_HEADER) {
            return Ok(());
        }
        let cookie = session_cookie_auth::presented(headers, self.cookies.transport)?;
        if headers.contains_key(header::AUTHORIZATION) {
            return Ok(());
        }
        match (is_safe, PageOrigin::of(headers, &self.origins)) {
            (true, _) | (false, PageOrigin::Own) => {}
            // This is not a browser: without a cookie, there is nothing to abuse.
            (false, PageOrigin::Unsaid) if cookie.is_none() => {}
            (false, _) => {
                let detail = "Changes with a session cookie must come from a page of this service. Otherwise, send the session as Authorization: Bearer.";
                return Err(ApiError::new(Code::Forbidden, detail));
            }
        }
        cookie.map_or(Ok(()), |cookie| session_cookie_auth::set_bearer_token(headers, &cookie))
    }

    /// Rejects forms that aren't sent from this service's pages, because browsers send forms to any origin.
    pub(super) fn require_own_page(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        match PageOrigin::of(headers, &self.origins) {
            PageOrigin::Own => Ok(()),
            PageOrigin::Foreign | PageOrigin::Unsaid => Err(ApiError::new(
                Code::Forbidden,
                "The form must come from a page of this service. Otherwise, send the token as JSON.",
            )),
        }
    }
}
