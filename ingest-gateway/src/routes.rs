//! The gateway's routes.

mod events;
mod sessions;
pub(crate) mod dry_run;

use crate::State;
use crate::request::caller_cache::refused_reports;
use crate::request::overloaded;
use crate::{click_tokens, drains};
use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;

pub fn routes(state: Arc<State>) -> Router {
    Router::new()
        // These routes require an API key with telemetry:write.
        .route("/events", post(events::post_events))
        .route("/sessions/start", post(sessions::start::start_session))
        .route("/sessions/end", post(sessions::end::end_session))
        .route("/sessions/bulk", post(sessions::bulk::upload_session))
        .route("/click-tokens", post(click_tokens::create_click_token))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&state), refused_reports::count_refused_reports))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&state), refuse_overload))
        // This route requires such a key in a header that the provider can send.
        .route("/drains/{provider}", post(drains::post_drain))
        // Public.
        .route("/.well-known/fastly/logging/challenge", get(drains::fastly_challenge))
        .with_state(state)
}

/// Rejects writes while too many are in progress. Requests whose body is still arriving don't count: the connection limit bounds slow
/// senders, which must not displace others.
async fn refuse_overload(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    if state.log.is_overloaded() {
        return overloaded().into_response();
    }
    next.run(request).await
}
