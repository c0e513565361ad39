//! Who acts, for which organisation, what they may let others into, and the trail of it.

pub(crate) mod actor;
pub(crate) mod audit;
pub(crate) mod columns;
pub(crate) mod granting;
pub(crate) mod hourly;
pub(crate) mod organization;
pub(crate) mod prelude;
