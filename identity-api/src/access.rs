//! Authenticated callers, their permissions, and the audit trail.

pub(crate) mod actor;
pub(crate) mod audit;
pub(crate) mod columns;
pub(crate) mod granting;
pub(crate) mod hourly;
pub(crate) mod organization;
pub(crate) mod prelude;
