//! Sessions: what is said of them, kept in PostgreSQL and remembered for a moment.
//!
//! Must not let anybody touch a session of another organisation: every statement carries the caller's.

pub(crate) mod facts;
pub(crate) mod change;
pub(crate) mod store;
mod memory;
mod left;
mod report_writer;
mod expiry;

pub use expiry::SessionExpiry;
pub(crate) use expiry::start as start_expiry;
pub(crate) use facts::privacy_level;
pub(crate) use memory::{NeededFacts, SessionMemory};
pub(crate) use report_writer::ReportWriter;
pub(crate) use store::exists as session_exists;
