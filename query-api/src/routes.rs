//! Routes of the reads, with one module per path.
//!
//! Handlers contain no logic of their own: `access` determines what is visible, and `reads` counts.

mod agent_figures;
pub(crate) mod click_lookup;
mod coverage;
mod crawlers;
mod session_documents;
mod documents;
pub(crate) mod dry_run;
mod lists;
mod one_event;
mod summary_and_coverage;
pub(crate) mod reconciliation;
pub(crate) mod resolve;
pub(crate) mod robots;
mod series;
mod statements;
mod usage;

use crate::State;
use crate::respond::{compression, response_memory};
use axum::Router;
use axum::middleware;
use axum::routing::get;
use std::sync::Arc;

/// Returns all routes of this service except health and OpenAPI.
pub fn routes(state: Arc<State>) -> Router {
    Router::new()
        // These routes require an API key with telemetry:read, or a member's session.
        .route("/content-owners/summary", get(summary_and_coverage::read_summary))
        .route("/content-owners/events", get(lists::read_events))
        .route("/content-owners/events/{id}", get(one_event::read_event))
        .route("/content-owners/documents", get(documents::read_documents))
        .route("/content-owners/urls", get(lists::read_urls))
        .route("/content-owners/corroboration", get(lists::read_corroboration))
        .route("/content-owners/reconciliation", get(reconciliation::read_reconciliation))
        .route("/content-owners/funnel", get(lists::read_funnel))
        .route("/content-owners/series", get(series::read_series))
        .route("/content-owners/crawlers", get(crawlers::read_crawlers))
        .route("/content-owners/robots", get(robots::read_robots))
        .route("/content-owners/coverage", get(summary_and_coverage::read_coverage))
        // Closing a month needs identity:write, or an owner's session.
        .route("/content-owners/statements", get(statements::list_statements).post(statements::close_month))
        .route("/content-owners/statements/{id}", get(statements::read_statement))
        .route("/content-owners/statements/{id}/evidence", get(statements::read_evidence))
        .route("/agent/events", get(lists::read_own_events))
        .route("/agent/summary", get(agent_figures::read_own_summary))
        .route("/agent/series", get(agent_figures::read_own_series))
        .route("/sessions/{id}/document", get(session_documents::read_document))
        // These routes require an API key with telemetry:read.
        .route("/ctx/{token}", get(click_lookup::read_manifest))
        // This route requires an operator's session.
        .route("/operator/usage", get(usage::read_usage))
        // This route is public and rate-limited by client address.
        .route("/resolve", get(resolve::resolve_domain))
        .route("/.well-known/content-telemetry.json", get(statements::read_manifest))
        .route_layer(compression::layer())
        .route_layer(middleware::map_response(response_memory::hold))
        .route_layer(middleware::from_fn(compression::choose))
        .with_state(state)
}
