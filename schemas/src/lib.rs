//! What the parts say to each other: ids, sites, secrets, events, the log record, read results, webhooks
//! and errors.

#[macro_use]
mod named_enum;

// What everything is named by.
pub mod ids;
pub mod instant;
pub mod site;
pub mod secrets;

// A report, and the record it becomes.
pub mod event;
pub mod event_key;
pub mod crawler;
pub mod bots;
pub mod session;
pub mod log;
pub mod report_keys;
pub mod shard;

// Whose it is.
pub mod identity;
pub mod clicks;

// What is stored, and read back.
pub mod reads;
pub mod pages;
pub mod series;
pub mod coverage;
pub mod crawler_reads;

// What goes out by itself.
pub mod webhook;
pub mod receiver;

// Every surface.
pub mod problem;
pub mod openapi;
