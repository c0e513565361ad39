//! The foundation of every process: settings, clock, logs and metrics, stores, HTTP, authentication.

// Processes: setup, lifecycle and observability.
pub mod process;
pub mod command;
pub mod settings;
pub mod production;
pub mod clock;
pub mod telemetry;
pub mod measures;
pub mod log_throttle;
mod lru;
pub mod private_files;
pub mod health;
pub mod housekeeping;
pub mod crash_point;

// The stores.
mod connections;
pub mod clickhouse_http;
pub mod database;
pub mod stores;
pub mod roles;
pub mod sealing;
pub mod kafka;

// Requests.
pub mod server;
pub mod http;
pub mod openapi;
pub mod client_address;
pub mod rates;
pub mod slots;
pub mod budgets;

// Authentication.
pub mod auth;
mod caller;
pub mod directory;
pub mod session_cookie;
pub mod unknown_credentials;
pub mod stale_cache;
pub mod key_uses;
pub mod clicks;

// Outgoing requests.
pub mod egress;

// Tests.
#[cfg(feature = "testing")]
pub mod testing;
