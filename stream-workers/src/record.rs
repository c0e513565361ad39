//! From the bytes of a record to the rows that it becomes. Pure.
//!
//! Must not look anything up: what the gateway could not is left to `resolve`.

pub(crate) mod decode;
pub(crate) mod row;
pub(crate) mod dry_run;
#[cfg(feature = "deadly-records")]
pub(crate) mod deadly_records;
