//! Callers and what they may see.
//!
//! Permissions aren't cached, so a revocation applies from the next read on.

pub(crate) mod reader;
pub(crate) mod visibility;
pub(crate) mod session_scope;
pub(crate) mod consent;
