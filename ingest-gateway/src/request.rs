//! A request before its members mean anything: whose it is, its bytes, the JSON in them, and what it may hold.

pub(crate) mod callers;
pub(crate) mod bodies;
pub(crate) mod body_memory;
pub(crate) mod raw;
pub(crate) mod faults;
pub(crate) mod limits;
pub(crate) mod idempotency;
pub(crate) mod large;
pub(crate) mod self_serve;
