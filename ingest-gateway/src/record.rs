//! Turns the validated events of a request into one log record.

pub(crate) mod event_batch;
mod verified_hosts;
pub(crate) mod normalize_event;
mod crawler;
mod conversation_members;
pub(crate) mod normalized_request;
pub(crate) mod accept;
