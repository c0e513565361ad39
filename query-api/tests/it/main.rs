//! Tests of the reads over HTTP with real stores. A single binary, because linking is slow.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod analysts;
mod arriving;
mod clicks;
mod clicks_planted;
mod compressed;
mod counting;
mod crawlers;
mod delegated_filters;
mod delegation;
mod documents;
mod formats;
mod former_owners;
mod held_back;
mod injections;
mod invented_names;
mod key_uses;
mod lists;
mod many_reads;
mod one_event;
mod one_moment;
mod parameters;
mod permuted;
mod random;
mod readiness;
mod resolve;
mod routes;
mod series;
mod session_readers;
mod sessions_world;
mod several_hosts;
mod shards;
mod shared_tokens;
mod statement_files;
mod statement_settings;
mod test_app;
mod visibility;
mod walks;

#[test]
#[ignore = "the service, started by other tests"]
fn as_the_service() {
    service_kit::testing::be_the_service(query_api::start);
}
