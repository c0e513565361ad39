//! The rules for events (docs/api/events.md#members-of-an-event), checked without I/O and with a given time.

mod context;
pub(crate) mod aliases;
pub(crate) mod members;
pub(crate) mod timestamps;
mod event;
mod repeats;
pub(crate) mod strict;
mod bind;
mod envelope_facts;

pub(crate) use crate::request::faults::{Faults, Member};
pub(crate) use bind::{Binding, Click, Presented, Tokens, bind_session, token_of};
pub(crate) use context::{Context, ValidEvent};
pub(crate) use envelope_facts::EnvelopeFacts;
pub(crate) use event::validate_event;
pub(crate) use members::KNOWN;
