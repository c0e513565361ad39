//! The event store: one live row per event, merged before it is written (docs/adr/0014-one-row-per-event.md).
//!
//! This crate contains what needs no server: the merge function, the tables with their rows as bytes, the index of
//! keys, and a simulator of the writer protocol, which runs in the tests.

pub mod facts;
pub mod key_index;
pub mod merge;
pub mod report;
pub mod row;
pub mod row_binary;
pub mod tables;

#[cfg(test)]
mod model;
#[cfg(test)]
mod table;
#[cfg(test)]
mod sim;
