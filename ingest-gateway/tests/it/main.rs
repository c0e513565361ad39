//! The gateway over HTTP, with a real broker and a real PostgreSQL. These tests use only what clients and log consumers can see.

mod budgets;
mod click_tokens;
mod click_token_outages;
mod conversations;
mod credentials;
mod postgres_outages;
mod drains;
mod durability;
mod emitters;
mod encodings;
mod fixtures;
mod session_atomicity;
mod harness;
mod misbehaving_clients;
mod idempotency;
mod key_uses;
mod limits;
mod outage_harness;
mod broker_outages;
mod records;
mod rejected_requests;
mod refused_reports;
mod sessions;
mod signatures;
mod session_outages;
mod overload;
mod unknown_keys;
mod strict;
mod threats;
mod threats_sessions;

#[test]
#[ignore = "the service itself, which other tests start"]
fn run_service() {
    service_kit::testing::run_as_service(ingest_gateway::start);
}
