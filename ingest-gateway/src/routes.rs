//! The whole surface on one screen: which path is whose, by who may call it; beneath it what the paths of events and sessions do.

mod events;
mod sessions;
pub(crate) mod dry_run;

use crate::State;
use crate::log::overloaded;
use crate::request::callers::refusals;
use crate::{drains, tokens};
use axum::Router;
use axum::extract::{Request, State as Shared};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use std::sync::Arc;

pub fn routes(state: Arc<State>) -> Router {
    Router::new()
        // With an API key that has telemetry:write.
        .route("/events", post(events::post_events))
        .route("/sessions/start", post(sessions::start::start_session))
        .route("/sessions/end", post(sessions::end::end_session))
        .route("/sessions/bulk", post(sessions::bulk::upload_session))
        .route("/click-tokens", post(tokens::create_click_token))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&state), refusals::note_refusal))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&state), refuse_overload))
        // With such a key in the header that its provider can send.
        .route("/drains/{provider}", post(drains::post_drain))
        // With nothing.
        .route("/.well-known/fastly/logging/challenge", get(drains::fastly_challenge))
        .with_state(state)
}

/// Refuses writes at once while too many are in progress. Requests whose body is still on its way do not count as in progress:
/// slow senders are bounded by the cap on connections, and must not take the place of others.
async fn refuse_overload(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    if state.log.is_overloaded() {
        return overloaded().into_response();
    }
    next.run(request).await
}
