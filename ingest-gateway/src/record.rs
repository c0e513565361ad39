//! Turns the validated events of a request into one log record.

pub(crate) mod batch;
mod own_hosts;
pub(crate) mod normalise;
mod crawler;
mod conversation;
pub(crate) mod normalised;
pub(crate) mod accept;
