//! The gateway over HTTP, with a real broker and a real PostgreSQL. These tests use only what clients and consumers of the log can see.

mod budgets;
mod click_tokens;
mod clicks_away;
mod conversations;
mod credentials;
mod database_away;
mod drains;
mod durability;
mod emitters;
mod encodings;
mod fixtures;
mod half_written;
mod harness;
mod hostile;
mod idempotency;
mod key_uses;
mod limits;
mod outage_harness;
mod outages;
mod records;
mod refusals;
mod refused_reports;
mod sessions;
mod sessions_away;
mod siege;
mod strangers;
mod strict;
mod threats;
mod threats_sessions;

#[test]
#[ignore = "the service itself, which other tests start"]
fn as_the_service() {
    service_kit::testing::be_the_service(ingest_gateway::start);
}
