//! The event store: one live row per event, merged before it is written (docs/adr/0014-one-row-per-event.md).
//!
//! This crate contains everything that works without a server: the merge function, the tables and their row encoding, the key index, and a
//! simulator of the writer protocol for the tests.

pub mod facts;
pub mod key_index;
pub mod merge;
pub mod report;
pub mod row;
pub mod row_binary;
pub mod tables;

#[cfg(test)]
mod reference_model;
#[cfg(test)]
mod test_table;
#[cfg(test)]
mod simulation;
