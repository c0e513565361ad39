//! The rules for events (docs/api/events.md#members-of-an-event), without I/O and with the time as a parameter.

mod context;
pub(crate) mod old_names;
pub(crate) mod typed_members;
pub(crate) mod timestamps;
mod event;
mod repeated_members;
pub(crate) mod strict;
mod session_binding;
mod envelope_facts;

pub(crate) use crate::request::faults::{Faults, Member};
pub(crate) use context::{Context, ValidEvent};
pub(crate) use envelope_facts::EnvelopeFacts;
pub(crate) use event::validate_event;
pub(crate) use session_binding::{Binding, ClickedLink, PresentedToken, Tokens, bind_session, token_of};
pub(crate) use typed_members::KNOWN;
