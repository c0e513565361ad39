//! Integration tests of service-kit: outgoing requests, the stores' accounts, raw HTTP and error responses.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue must fail")]

mod browser_headers;
mod clickhouse_accounts;
mod clickhouse_versions;
mod database;
mod egress;
mod encrypted_stores;
mod least_privilege;
mod postgres_refusals;
mod raw_requests;
mod rebinding;
mod slow_clients;
mod spellings;
