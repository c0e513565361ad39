//! Tests the worker with a real log and a real store, while processes crash.
//!
//! The tests don't look inside the crate: they check what the log, the tables and operators see.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue must fail")]

mod account_privileges;
mod stalled_network;
mod click_tokens;
mod clicks_without_postgres;
mod deliveries;
mod delivery_faults;
mod stalled_deliverers;
mod failed_fetches;
mod slow_receivers;
mod worker_faults;
mod recording_receiver;
mod dead_letter_retention;
mod killed_deliverers;
mod log_to_rows;
mod offsets;
mod operators_retries;
mod unreadable_records;
mod delivery_fixture;
mod process;
mod faulty_clickhouse;
mod rebuild_command;
mod receiver_examples;
mod record_versions;
mod rejected_inserts;
mod rejected_command;
mod log_order;
mod replay_command;
mod metrics;
mod sessions;
mod processed_counts;
mod shards;
mod test_app;
mod delivery_order;
mod full_queues;
mod writer;

#[test]
#[ignore = "the service itself, which other tests start"]
fn run_service() {
    service_kit::testing::run_as_service(stream_workers::start);
}
