//! Tests the worker with a real log and a real store, while processes die.
//!
//! The tests don't look inside the crate: they check what the log, the tables and an operator see.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue must fail")]

mod accounts;
mod black_hole;
mod clicks;
mod clicks_away;
mod deliveries;
mod delivery_faults;
mod delivery_silence;
mod failed_fetches;
mod fairness;
mod faults;
mod inbox;
mod keep;
mod kills;
mod log_to_rows;
mod offsets;
mod poison;
mod post_office;
mod process;
mod proxy;
mod rebuilds;
mod receivers;
mod record_versions;
mod refusals;
mod rejected;
mod replay;
mod replays;
mod scrape;
mod sessions;
mod processed;
mod shards;
mod test_app;
mod turns;
mod without_room;
mod writer;

#[test]
#[ignore = "the service itself, which other tests start"]
fn as_the_service() {
    service_kit::testing::be_the_service(stream_workers::start);
}
