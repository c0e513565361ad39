//! Decodes records into rows. Pure: `resolve` looks up what the gateway could not.

pub(crate) mod decode;
pub(crate) mod row;
pub(crate) mod dry_run;
pub(crate) mod deadly_records;
