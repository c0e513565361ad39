//! The rules an event must keep (docs/api/events.md#members-of-an-event), checked without I/O and without a clock of its own.
//!
//! Must report every fault at once, and must not change an event: that is `normalise`.

mod bind;
mod context;
mod event;
mod faults;
pub(crate) mod members;
mod repeats;
pub(crate) mod strict;
mod told;

pub(crate) use bind::{Binding, Click, Presented, Tokens, bind_session, token_of};
pub(crate) use context::{Context, ValidEvent};
pub(crate) use event::validate_event;
pub(crate) use faults::{Faults, Member};
pub(crate) use members::KNOWN;
pub(crate) use told::Told;
