//! Refuses writes at once while too many are in progress, before anything of theirs is read.
//!
//! Must cost next to nothing: it runs when there is nothing to spare.

use crate::State;
use crate::log::overloaded;
use axum::extract::{Request, State as Shared};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// The layer of the write routes. Requests whose body is still on its way do not count as in progress: slow senders are
/// bounded by the cap on connections, and must not take the place of others.
pub(crate) async fn refuse_overload(Shared(state): Shared<Arc<State>>, request: Request, next: Next) -> Response {
    if state.log.is_overloaded() {
        return overloaded().into_response();
    }
    next.run(request).await
}
