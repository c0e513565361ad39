//! `POST /sessions/start`, `/sessions/end` and `/sessions/bulk`: one file per endpoint.
//!
//! Must not let anybody touch a session of another organisation: every statement carries the caller's.

mod agents;
mod bulk;
mod end;
mod facts;
mod sightings;
mod start;
mod store;

pub(crate) use agents::SessionAgents;
pub(crate) use bulk::{read_session, upload_session};
pub(crate) use end::end_session;
pub(crate) use facts::privacy_level;
pub(crate) use sightings::{Sighting, Sightings};
pub(crate) use start::start_session;
pub(crate) use store::exists as session_exists;
