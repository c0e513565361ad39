//! Sessions: what calls of `/sessions/*` say of them, and the levels that their events need. The worker writes those that events
//! name (docs/adr/0006-sessions-and-the-log.md).
//!
//! Must not let anybody touch a session of another organisation: every statement carries the caller's.

pub(crate) mod facts;
pub(crate) mod change;
pub(crate) mod store;
mod memory;
pub(crate) mod expiry;

pub(crate) use change::is_usable;
pub(crate) use facts::privacy_level;
pub(crate) use memory::SessionMemory;
pub(crate) use store::Levels;
