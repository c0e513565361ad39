//! Sessions: facts from calls of `/sessions/*`, and the privacy levels that events need. The worker stores sessions that events
//! name (docs/adr/0006-sessions-and-the-log.md).
//!
//! Every statement filters by the caller's organization, so callers can't access other organizations' sessions.

pub(crate) mod facts;
pub(crate) mod change;
pub(crate) mod store;
mod level_cache;
pub(crate) mod expiry;

pub(crate) use change::is_usable;
pub(crate) use facts::privacy_level;
pub(crate) use level_cache::SessionLevelCache;
pub(crate) use store::Levels;
