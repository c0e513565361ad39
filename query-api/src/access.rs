//! Callers and what they may see.
//!
//! Caches nothing about permissions, so a revocation applies from the next read on.

pub(crate) mod reader;
pub(crate) mod visibility;
pub(crate) mod session_scope;
pub(crate) mod consent;
