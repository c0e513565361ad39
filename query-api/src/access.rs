//! Callers and what they may see.
//!
//! Permissions aren't cached, so a revocation applies to the next read.

pub(crate) mod reader;
pub(crate) mod closer;
pub(crate) mod visibility;
pub(crate) mod session_scope;
pub(crate) mod consent;
pub(crate) mod operator;
pub(crate) mod organization_names;
