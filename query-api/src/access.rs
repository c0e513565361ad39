//! Who reads, and what they may see.
//!
//! Must not read telemetry, and must not remember who may: what is withdrawn counts from the next read on.

pub(crate) mod reader;
pub(crate) mod visibility;
pub(crate) mod session_scope;
pub(crate) mod consent;
