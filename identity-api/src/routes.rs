//! All routes, grouped by the credential they require.

pub(crate) mod dry_run;

use crate::State;
use crate::access::audit;
use crate::delegations::requests;
use crate::domains::manifests;
use crate::keys::drains::{self, health};
use crate::keys::{analyst_accounts, api_keys};
use crate::organizations::{access_requests, creation, invites, members, partners, reconciliation_alert, saved_views, settings};
use crate::people::sign_in::{cookie_guard, magic_links, oidc, redeem_link, session};
use crate::request::request_slot;
use crate::webhooks::{deliveries, endpoint_state};
use crate::{delegations, domains, people, webhooks};
use axum::Router;
use axum::middleware;
use axum::routing::{delete, get, patch, post};
use std::sync::Arc;

/// Returns all routes except health. The request middleware is added elsewhere.
pub fn routes(state: Arc<State>) -> Router {
    paths()
        .route_layer(middleware::from_fn(request_slot::hold))
        .route_layer(middleware::from_fn_with_state(Arc::clone(&state), cookie_guard::guard))
        .with_state(state)
}

fn paths() -> Router<Arc<State>> {
    member_paths().merge(people_paths())
}

/// Routes for a key with an identity scope, or a session of a member.
fn member_paths() -> Router<Arc<State>> {
    Router::new()
        .route("/api/v1/identity/analysts", get(analyst_accounts::list_analysts))
        .route("/api/v1/identity/analysts/{id}", delete(analyst_accounts::revoke_analyst))
        .route("/api/v1/identity/api-keys", get(api_keys::list_api_keys).post(api_keys::create_api_key))
        .route("/api/v1/identity/api-keys/{id}", patch(api_keys::change_api_key).delete(api_keys::revoke_api_key))
        .route("/api/v1/identity/audit", get(audit::trail::list_audit_entries))
        .route("/api/v1/identity/delegations", get(delegations::list_delegations).post(delegations::create_delegation))
        .route("/api/v1/identity/delegations/{id}", delete(delegations::revoke_delegation))
        .route(
            "/api/v1/identity/delegation-requests",
            get(requests::list_delegation_requests).post(requests::create_delegation_request),
        )
        .route("/api/v1/identity/delegation-requests/bulk", post(requests::create_delegation_requests))
        .route("/api/v1/identity/delegation-requests/{id}/approve", post(requests::approve_delegation_request))
        .route("/api/v1/identity/delegation-requests/{id}/deny", post(requests::deny_delegation_request))
        .route("/api/v1/identity/domains", get(domains::list_domains).post(domains::register_domain))
        .route("/api/v1/identity/domains/{id}", delete(domains::release_domain))
        .route("/api/v1/identity/domains/{id}/verify", post(domains::verify_domain))
        .route("/api/v1/identity/drains", get(drains::list_drains).post(drains::create_drain))
        .route("/api/v1/identity/drains/{id}", get(drains::show_drain).delete(drains::delete_drain))
        .route("/api/v1/identity/drains/{id}/rotate", post(drains::rotate_key))
        .route("/api/v1/identity/drains/{id}/health", get(health::show_health))
        .route("/api/v1/identity/manifests", get(manifests::list_manifests).post(manifests::create_manifest))
        .route("/api/v1/identity/manifests/{id}", get(manifests::show_manifest).delete(manifests::delete_manifest))
        .route("/api/v1/identity/manifests/{id}/refresh", post(manifests::refresh_manifest))
        .route("/api/v1/identity/refused-reports", get(audit::refused_reports::list_refused_reports))
        .route(
            "/api/v1/identity/reconciliation-alert",
            get(reconciliation_alert::show_alert).put(reconciliation_alert::set_alert),
        )
        .route("/api/v1/identity/saved-views", get(saved_views::list_saved_views).post(saved_views::save_view))
        .route("/api/v1/identity/saved-views/{id}", delete(saved_views::delete_saved_view))
        .route("/api/v1/identity/settings", get(settings::show_settings).patch(settings::change_settings))
        .route("/api/v1/identity/webhooks", get(webhooks::list_webhooks).post(webhooks::create_webhook))
        .route(
            "/api/v1/identity/webhooks/{id}",
            get(webhooks::show_webhook).patch(endpoint_state::change_webhook).delete(endpoint_state::delete_webhook),
        )
        .route("/api/v1/identity/webhooks/{id}/test", post(endpoint_state::test_webhook))
        .route("/api/v1/identity/webhooks/{id}/rotate-secret", post(endpoint_state::rotate_secret))
        .route("/api/v1/identity/webhooks/{id}/deliveries", get(deliveries::list_deliveries))
        .route("/api/v1/identity/webhooks/{id}/deliveries/{delivery_id}/redeliver", post(deliveries::redeliver))
}

fn people_paths() -> Router<Arc<State>> {
    Router::new()
        // sessions only: organizations, their members and invites, access requests
        .route("/api/v1/identity/organizations", get(creation::list_organizations).post(creation::create_organization))
        .route("/api/v1/identity/organizations/{id}", get(creation::show_organization))
        .route("/api/v1/identity/organizations/{id}/members", get(members::list_members).post(invites::invite_member))
        .route(
            "/api/v1/identity/organizations/{id}/members/{user_id}",
            patch(members::change_member).delete(members::remove_member),
        )
        .route("/api/v1/identity/organizations/{id}/invites", get(invites::list_invites))
        .route("/api/v1/identity/organizations/{id}/invites/{invite_id}", delete(invites::withdraw_invite))
        .route("/api/v1/identity/invites/claim", post(invites::claim_invite))
        .route(
            "/api/v1/identity/platform-access-requests",
            get(access_requests::list_platform_requests).post(access_requests::request_platform),
        )
        .route(
            "/api/v1/identity/agent-access-requests",
            get(access_requests::list_agent_requests).post(access_requests::request_agent),
        )
        // sessions of operators
        .route("/api/v1/identity/operator/access-requests", get(access_requests::list_access_requests_to_review))
        .route("/api/v1/identity/operator/access-requests/{id}/approve", post(access_requests::approve_access_request))
        .route("/api/v1/identity/operator/access-requests/{id}/reject", post(access_requests::reject_access_request))
        .route("/api/v1/identity/operator/dead-letters", get(people::dead_letters::list_dead_letters))
        .route("/api/v1/identity/operator/dead-letters/{id}/retry", post(people::dead_letters::retry_dead_letter))
        .route("/api/v1/identity/operator/organizations", get(people::all_organizations::list_all_organizations))
        .route("/api/v1/identity/operator/webhooks", get(people::all_webhooks::list_all_webhooks))
        .route("/api/v1/identity/operator/webhooks/{id}", get(people::all_webhooks::show_any_webhook))
        .route("/api/v1/identity/operator/webhooks/{id}/deliveries", get(people::all_webhooks::list_any_deliveries))
        // keys with partner:provision of a trusted partner
        .route("/api/v1/identity/partner/organizations", post(partners::provision_organization))
        .route("/api/v1/identity/partner/organizations/{id}/domains/{domain_id}/attest", post(partners::attest_domain))
        .route("/api/v1/identity/partner/organizations/{id}/invites", post(partners::invite_first_owner))
        // no credential: limited by the client address's rate
        .route("/api/v1/identity/auth/magic-link", get(redeem_link::show_sign_in_page).post(magic_links::send_magic_link))
        .route("/api/v1/identity/auth/magic-link/verify", post(redeem_link::redeem_magic_link))
        .route("/api/v1/identity/auth/oidc", get(oidc::list_oidc_providers))
        .route("/api/v1/identity/auth/oidc/{provider}", get(oidc::start_oidc))
        .route("/api/v1/identity/auth/oidc/{provider}/callback", get(oidc::finish_oidc))
        // sessions only
        .route("/api/v1/identity/auth/session", get(session::show_session).delete(session::end_session))
}
