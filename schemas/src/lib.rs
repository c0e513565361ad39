//! Types shared by the services: ids, sites, secrets, events, log records, read responses, webhooks and errors.

#[macro_use]
mod named_enum;

// Names and basic types.
pub mod ids;
pub mod instant;
pub mod site;
pub mod secrets;

// Reports and log records.
pub mod event;
pub mod event_key;
pub mod crawler;
pub mod bots;
pub mod session;
pub mod signature;
pub mod log;
pub mod report_keys;
pub mod shard;

// Organizations and their objects.
pub mod identity;
pub mod click_tokens;

// Responses of reads.
pub mod summary_responses;
pub mod paged_responses;
pub mod series_responses;
pub mod statement_responses;
pub mod coverage;
pub mod crawler_responses;
pub mod robots_responses;

// Webhooks.
pub mod webhook;
pub mod webhook_url;

// All APIs.
pub mod problem;
pub mod openapi;
