//! Tests the identity API over HTTP with a real PostgreSQL. The tests use only what callers see and what tables contain.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod access_requests;
mod admin;
mod analysts;
mod request_races;
mod api_keys;
mod audit;
mod audit_trail;
mod queue_limits;
mod person_limits;
mod organization_budgets;
mod bulk_outage;
mod bulk_requests;
mod credentials;
mod cross_site;
mod delegation_requests;
mod delegations;
mod deliveries;
mod dead_letters;
mod domain_takeovers;
mod domain_history;
mod domains;
mod drains;
mod first_owners;
mod forged_provider;
mod storage_growth;
mod fake_internet;
mod invites;
mod key_creators;
mod key_uses;
mod late_revocations;
mod list_totals;
mod logs;
mod magic_links;
mod manifests;
mod mail_names;
mod mailbox;
mod members;
mod object_ids;
mod oidc;
mod oidc_attacks;
mod onboarding_races;
mod onboarding_routes;
mod operator_webhooks;
mod operators;
mod organization_lists;
mod organizations;
mod outbox;
mod partners;
mod people;
mod process;
mod races;
mod rate_limits;
mod reconciliation_alerts;
mod refused_reports;
mod robots;
mod routes;
mod saved_views;
mod settings;
mod smtp;
mod test_app;
mod two_processes;
mod user_sessions;
mod permissions;
mod webhook_endpoint_states;
mod webhooks;

#[test]
#[ignore = "the service itself, which other tests start"]
fn run_service() {
    service_kit::testing::run_as_service(identity_api::start);
}
