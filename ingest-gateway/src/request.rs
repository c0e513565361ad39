//! Reads a request: caller, bytes, JSON, and limits. Members are interpreted later.

pub(crate) mod caller_cache;
pub(crate) mod write_request;
pub(crate) mod body_memory;
pub(crate) mod raw_json;
pub(crate) mod faults;
pub(crate) mod limits;
pub(crate) mod idempotency;
pub(crate) mod cpu_permits;
pub(crate) mod write_budgets;
