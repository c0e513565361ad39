//! The console's routes. None of them starts like an API path.

use crate::screens::{
    all_webhooks, assistants, audit, clicks, corroboration, dead_letters, domains, drain, drains, event, events, funnel, home,
    invite, keys, measures, members, operator, organizations, overview, pages, partners, reconciliation, refused, reported,
    reports, requests, robots, saved_views, settings, sign_in, start, statements, usage, webhooks,
};
use crate::{State, assets, export, failure, forms, theme};
use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::response::Response;
use axum::routing::{get, post};
use std::sync::Arc;

/// Allows only the console's own assets. Blocks inline scripts, inline styles and framing.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
);

/// Every console route except health checks.
pub fn routes(state: Arc<State>) -> Router {
    Router::new()
        // Public.
        .route("/", get(home::root))
        .route("/sign-in", get(sign_in::show).post(sign_in::ask))
        .route("/sign-in/finish", post(sign_in::finish))
        .route("/sign-in/arrived", get(sign_in::arrived))
        .route("/sign-in/invite", get(invite::show).post(invite::accept))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/assets/{name}", get(assets::serve))
        // These routes require a session.
        .route("/console", get(home::console))
        .route("/console/", get(home::console))
        .route("/console/organizations", get(organizations::show).post(organizations::found))
        .route("/console/measures", get(measures::show))
        .route("/console/theme", post(theme::choose))
        .route("/console/requests", get(requests::show).post(requests::ask))
        .route("/console/export/{file}", get(export::serve_person))
        .merge(of_operators())
        // These routes require a member of the organization.
        .route("/console/o/{organization}", get(home::organization))
        .route("/console/o/{organization}/overview", get(overview::show))
        .route("/console/o/{organization}/events", get(events::show))
        .route("/console/o/{organization}/events/tail", get(events::tail))
        .route("/console/o/{organization}/event/{id}", get(event::show))
        .route("/console/o/{organization}/pages", get(pages::show))
        .route("/console/o/{organization}/corroboration", get(corroboration::show))
        .route("/console/o/{organization}/reconciliation", get(reconciliation::show))
        .route("/console/o/{organization}/funnel", get(funnel::show))
        .route("/console/o/{organization}/assistants", get(assistants::show))
        .route("/console/o/{organization}/robots", get(robots::show))
        .merge(of_statements_and_views())
        .route("/console/o/{organization}/start", get(start::show))
        .route("/console/o/{organization}/start/arrival", get(start::arrival))
        .route("/console/o/{organization}/domains", get(domains::show).post(domains::register))
        .route("/console/o/{organization}/domains/{id}/verify", post(domains::verify))
        .route("/console/o/{organization}/domains/{id}/release", post(domains::release))
        .route("/console/o/{organization}/drains", get(drains::list).post(drains::create))
        .route("/console/o/{organization}/drain-files/{name}", get(drains::files))
        .route("/console/o/{organization}/drains/{id}", get(drain::show))
        .route("/console/o/{organization}/drains/{id}/lines", get(drain::lines))
        .route("/console/o/{organization}/drains/{id}/rotate", post(drain::rotate))
        .route("/console/o/{organization}/drains/{id}/delete", post(drain::delete))
        .route("/console/o/{organization}/keys", get(keys::show).post(keys::generate))
        .route("/console/o/{organization}/keys/{id}/revoke", post(keys::revoke))
        .route("/console/o/{organization}/partners", get(partners::show).post(partners::ask))
        .route("/console/o/{organization}/partners/requests/{id}/{answer}", post(partners::answer))
        .route("/console/o/{organization}/partners/{id}/revoke", post(partners::revoke))
        .route("/console/o/{organization}/webhooks", get(webhooks::list).post(webhooks::create))
        .route("/console/o/{organization}/webhooks/{id}", get(webhooks::show))
        .route("/console/o/{organization}/webhooks/{id}/rotate", post(webhooks::rotate))
        .route("/console/o/{organization}/webhooks/{id}/test", post(webhooks::test))
        .route("/console/o/{organization}/webhooks/{id}/disable", post(webhooks::disable))
        .route("/console/o/{organization}/webhooks/{id}/enable", post(webhooks::enable))
        .route("/console/o/{organization}/webhooks/{id}/delete", post(webhooks::delete))
        .route("/console/o/{organization}/webhooks/{id}/deliveries/{delivery}/redeliver", post(webhooks::redeliver))
        .route("/console/o/{organization}/members", get(members::show).post(members::invite))
        .route("/console/o/{organization}/members/{id}/role", post(members::change_role))
        .route("/console/o/{organization}/members/{id}/remove", post(members::remove))
        .route("/console/o/{organization}/members/invites/{id}/withdraw", post(members::withdraw))
        .route("/console/o/{organization}/reported", get(reported::show))
        .route("/console/o/{organization}/reports", get(reports::show))
        .route("/console/o/{organization}/clicks", get(clicks::show))
        .route("/console/o/{organization}/sessions/{id}", get(reports::document))
        .route("/console/o/{organization}/audit", get(audit::show))
        .route("/console/o/{organization}/refused", get(refused::show))
        .route("/console/o/{organization}/settings", get(settings::show).post(settings::change))
        .route("/console/o/{organization}/export/{file}", get(export::serve))
        .route("/console/{*rest}", get(home::nothing_here))
        .method_not_allowed_fallback(home::wants_a_form)
        .route_layer(middleware::from_fn_with_state(Arc::clone(&state), forms::accept_own))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&state), failure::shown))
        .route_layer(middleware::map_response(with_policy))
        .with_state(state)
}

fn of_statements_and_views() -> Router<Arc<State>> {
    Router::new()
        .route("/console/o/{organization}/statements", get(statements::list).post(statements::close))
        .route("/console/o/{organization}/statements/{id}", get(statements::show))
        .route("/console/o/{organization}/statements/{id}/export/{file}", get(statements::download))
        .route("/console/o/{organization}/views", get(saved_views::show).post(saved_views::save))
        .route("/console/o/{organization}/views/{id}/delete", post(saved_views::delete))
}

fn of_operators() -> Router<Arc<State>> {
    Router::new()
        .route("/console/operator/requests", get(operator::reviews))
        .route("/console/operator/requests/{id}/{verdict}", post(operator::review))
        .route("/console/operator/dead-letters", get(dead_letters::list))
        .route("/console/operator/dead-letters/{id}/retry", post(dead_letters::retry))
        .route("/console/operator/organizations", get(operator::organizations))
        .route("/console/operator/usage", get(usage::show))
        .route("/console/operator/webhooks", get(all_webhooks::list))
        .route("/console/operator/webhooks/{id}", get(all_webhooks::show))
        .route("/console/operator/export/{file}", get(export::serve_operator))
}

async fn with_policy(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, POLICY);
    response
}
