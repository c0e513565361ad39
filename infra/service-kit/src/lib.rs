//! How a process of this service runs: settings, clock, telemetry, stores, HTTP, callers, server.
//!
//! Must not know any one service's routes or rules; it depends on `schemas` only.

pub mod auth;
mod caller;
pub mod clicks;
pub mod client_address;
pub mod clock;
mod connections;
pub mod crash_point;
pub mod directory;
pub mod egress;
pub mod health;
pub mod housekeeping;
pub mod http;
pub mod kafka;
pub mod key_uses;
pub mod log_throttle;
pub mod measures;
pub mod openapi;
pub mod process;
pub mod production;
pub mod rates;
pub mod retrieval_index;
pub mod roles;
pub mod sealing;
pub mod server;
pub mod session_cookie;
pub mod settings;
pub mod stale_cache;
pub mod stores;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
pub mod unknown_credentials;
