//! What the parts say to each other: ids, sites, secrets, events, the log record, read results, webhooks
//! and errors.
//!
//! Must not open a socket, read a clock or read the environment; every function here is pure or only mints
//! random secrets, so each rule can be tested without a server.

pub mod bots;
pub mod clicks;
pub mod coverage;
pub mod crawler;
pub mod crawler_reads;
pub mod event;
pub mod event_key;
pub mod identity;
pub mod ids;
pub mod instant;
pub mod log;
pub mod openapi;
pub mod pages;
pub mod problem;
pub mod reads;
pub mod receiver;
pub mod secrets;
pub mod series;
pub mod session;
pub mod site;
pub mod store;
pub mod webhook;
