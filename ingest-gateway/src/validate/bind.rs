//! Which session an event belongs to: its own, the envelope's, or the one behind a click token
//! (decisions.md, "session binding").
//!
//! Must not look tokens up: what they stand for is handed in.

use super::{Context, Faults, Member, ValidEvent};
use schemas::event::{EventFamily, EventType, SourceRole};
use schemas::ids::{OrgId, SessionId};
use std::collections::HashMap;

/// A session and the organisation whose session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoundSession {
    pub(crate) org: OrgId,
    pub(crate) session: SessionId,
}

/// What the request's click tokens stand for; a token that is absent is unknown or expired.
pub(crate) type Tokens = HashMap<String, BoundSession>;

/// The token an event goes by: its own, else the envelope's.
pub(crate) fn token_of<'a>(event: &'a ValidEvent<'_>, context: &'a Context<'_>) -> Option<&'a str> {
    event.ctx_token.as_deref().or_else(|| context.ctx_token.as_deref().filter(|_| may_carry_token(&event.event_type)))
}

/// Binds one event, or adds the fault that says why it cannot be.
pub(crate) fn bind_session(
    event: &ValidEvent<'_>,
    context: &Context<'_>,
    caller: OrgId,
    tokens: &Tokens,
    faults: &mut Faults,
) -> Option<BoundSession> {
    let member = Member("ctx_token");
    if context.is_whole_session && event.session_id.is_some_and(|session| Some(session) != context.session_id) {
        faults.add(Member("session_id"), "session_mismatch", "an event of a whole session belongs to that session");
        return None;
    }
    let own = event.session_id.or(context.session_id).map(|session| BoundSession { org: caller, session });
    let Some(token) = token_of(event, context) else {
        require_session(event, own.is_some() || context.is_binding_unclear, faults);
        return own;
    };
    if !may_carry_token(&event.event_type) {
        faults.add(member, "not_allowed", format!("{} may not carry a ctx_token", event.event_type));
        return None;
    }
    let Some(bound) = tokens.get(token) else {
        faults.add(member, "unknown_token", "the click token is unknown or expired");
        return None;
    };
    if own.is_some_and(|own| own.session != bound.session) {
        faults.add(member, "session_mismatch", "the click token belongs to another session than session_id");
    }
    Some(*bound)
}

fn may_carry_token(event_type: &EventType) -> bool {
    *event_type == EventType::ContentEngaged || event_type.family() == EventFamily::Checkout
}

/// A session may lack only on a retrieval that an edge, an origin or an index observed.
fn require_session(event: &ValidEvent<'_>, has_session: bool, faults: &mut Faults) {
    let is_observer = matches!(event.source_role, Some(SourceRole::Origin | SourceRole::Edge | SourceRole::Index));
    // An unknown role, or a session that does not parse, is a fault of its own already.
    let is_unclear = (event.source_role.is_none() && event.members.get("source_role").is_some())
        || event.members.get("session_id").is_some()
        || event.members.get("ctx_token").is_some();
    let may_lack = (event.event_type == EventType::ContentRetrieved && is_observer) || is_unclear;
    if !has_session && !may_lack {
        faults.add(Member("session_id"), "required", format!("{} needs a session_id", event.event_type));
    }
}
