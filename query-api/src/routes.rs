//! The reads over HTTP: the whole surface on one screen, and beneath it one file for what a path answers.
//!
//! Must hold no logic but that of its handlers: what may be seen is decided in `access`, and what is counted in `reads`.

mod agent_figures;
pub(crate) mod clicks;
mod coverage;
mod crawlers;
mod documents;
pub(crate) mod dry_run;
mod lists;
mod one_event;
mod reads;
pub(crate) mod resolve;
mod series;

use crate::State;
use crate::respond::compression;
use axum::Router;
use axum::middleware;
use axum::routing::get;
use std::sync::Arc;

/// Every path of this surface, without health and boundary.
pub fn routes(state: Arc<State>) -> Router {
    Router::new()
        // With an API key that has telemetry:read, or the session of a member.
        .route("/content-owners/summary", get(reads::read_summary))
        .route("/content-owners/events", get(lists::read_events))
        .route("/content-owners/events/{id}", get(one_event::read_event))
        .route("/content-owners/urls", get(lists::read_urls))
        .route("/content-owners/corroboration", get(lists::read_corroboration))
        .route("/content-owners/funnel", get(lists::read_funnel))
        .route("/content-owners/series", get(series::read_series))
        .route("/content-owners/crawlers", get(crawlers::read_crawlers))
        .route("/content-owners/coverage", get(reads::read_coverage))
        .route("/agent/events", get(lists::read_own_events))
        .route("/agent/summary", get(agent_figures::read_own_summary))
        .route("/agent/series", get(agent_figures::read_own_series))
        .route("/sessions/{id}/document", get(documents::read_document))
        // With an API key that has telemetry:read.
        .route("/ctx/{token}", get(clicks::read_manifest))
        // Open to everybody, within the rate of the client's address.
        .route("/resolve", get(resolve::resolve_domain))
        .route_layer(compression::layer())
        .route_layer(middleware::from_fn(compression::choose))
        .with_state(state)
}
