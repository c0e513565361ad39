//! Authenticated callers, their permissions, and the audit trail.

pub(crate) mod actor;
pub(crate) mod audit;
pub(crate) mod columns;
pub(crate) mod permissions;
pub(crate) mod hourly;
pub(crate) mod organization_rows;
pub(crate) mod prelude;
