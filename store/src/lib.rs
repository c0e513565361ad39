//! The rules of the event store: one live row per event, merged before it is written (docs/adr/0014-one-row-per-event.md).
//!
//! Nothing uses this crate yet. It contains the merge function, which is pure, and a simulator of the
//! writer protocol, which runs in its tests.

pub mod report;
pub mod row;
pub mod merge;

#[cfg(test)]
mod model;
#[cfg(test)]
mod table;
#[cfg(test)]
mod sim;
