//! Tests of the reads over HTTP with real stores. All are in one binary, because linking is slow.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod analysts;
mod reads_during_inserts;
mod click_manifests;
mod planted_session_ids;
mod compression;
mod documented_figures;
mod crawlers;
mod delegated_filters;
mod delegation;
mod documents;
mod exports;
mod formats;
mod former_owners;
mod slow_readers;
mod sql_injection;
mod invented_names;
mod key_uses;
mod lists;
mod read_limits;
mod reconciliation_alerts;
mod single_events;
mod snapshots;
mod parameters;
mod report_order;
mod random_reports;
mod readiness;
mod resolve;
mod robots;
mod routes;
mod series;
mod session_readers;
mod click_fixture;
mod several_hosts;
mod shards;
mod shared_tokens;
mod statement_files;
mod statement_settings;
mod statements;
mod test_app;
mod usage;
mod visibility;
mod cursor_paging;

#[test]
#[ignore = "the service, started by other tests"]
fn run_service() {
    service_kit::testing::run_as_service(query_api::start);
}
