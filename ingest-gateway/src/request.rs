//! Reads a request: caller, bytes, JSON, and limits. Members are interpreted later.

pub(crate) mod callers;
pub(crate) mod bodies;
pub(crate) mod body_memory;
pub(crate) mod raw;
pub(crate) mod faults;
pub(crate) mod limits;
pub(crate) mod idempotency;
pub(crate) mod large;
pub(crate) mod self_serve;
