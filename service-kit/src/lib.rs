//! Code that every process needs: settings, clock, logs, metrics, stores, HTTP, authentication.

pub mod process;
pub mod command_output;
pub mod settings;
pub mod production;
pub mod clock;
pub mod observability;
pub mod metric_definitions;
pub mod log_throttle;
mod lru;
pub mod private_files;
pub mod health;
pub mod hourly_deletion;
pub mod periodic;
pub mod crash_point;

// The stores.
mod database_clients;
pub mod clickhouse_http;
pub mod optional_postgres;
pub mod databases;
pub mod roles;
pub mod secret_encryption;
pub mod kafka;

// Requests.
pub mod server;
pub mod http;
pub mod openapi;
pub mod client_address;
pub mod rate_limits;
pub mod slots;
pub mod byte_budgets;

// Authentication.
pub mod auth;
mod caller;
pub mod identity_tables;
pub mod session_cookie_auth;
pub mod unknown_credentials;
pub mod stale_cache;
pub mod key_uses;
pub mod click_token_lookups;

// Outgoing requests.
pub mod egress;

// Tests.
#[cfg(feature = "testing")]
pub mod testing;
