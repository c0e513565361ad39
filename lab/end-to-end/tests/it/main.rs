//! Tests of the whole service on real servers, over HTTP.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

mod alerts;
mod backup;
mod backup_hooks;
mod clicks_away;
mod client_packages;
mod clients;
mod console;
mod contract;
mod counting;
mod crash;
mod demo;
mod demo_data;
mod documented_commands;
mod drains;
mod customer_files;
mod export;
mod text_excerpt;
mod first_screen;
mod generated_clients;
#[expect(dead_code, reason = "only identity-api's tests use the rest")]
#[path = "../../../../identity-api/tests/it/forged_provider.rs"]
mod forged_provider;
mod histories;
mod initiators;
mod host_spellings;
mod metrics;
mod rolling_upgrade;
mod npm_client;
mod observability;
mod one_retrieval;
mod openapi;
mod openapi_examples;
mod database_roles;
mod pipeline;
mod probes;
mod production;
mod reads_beside_reports;
mod rebuild;
mod reconcile;
mod reconciliation;
mod refusals;
mod restart;
mod revocations;
mod session_documents;
mod session_envelopes;
mod settings_table;
mod signed_reports;
mod slow_clients;
mod start_up;
mod statements;
mod summary_poller;
mod webhooks;
mod whole_story;
mod withholding_proxy;

#[test]
#[ignore = "run as a process by other tests"]
fn run_service() {
    service_kit::testing::run_as_service(telemetry::start);
}
