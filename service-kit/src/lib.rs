//! How a process of this service runs: settings, clock, telemetry, stores, HTTP, callers, server.

// A process: how it is set up, runs and tells of itself.
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

// Who asks.
pub mod auth;
mod caller;
pub mod directory;
pub mod session_cookie;
pub mod unknown_credentials;
pub mod stale_cache;
pub mod key_uses;
pub mod clicks;

// The one way out.
pub mod egress;

// Tests.
#[cfg(feature = "testing")]
pub mod testing;
