//! Which session an event belongs to: its own, the envelope's, or the one behind a click token
//! (decisions.md, "session binding").
//!
//! Must not look tokens up: what they stand for is handed in.

use super::{Context, Faults, Member, ValidEvent};
use schemas::event::{EventFamily, EventType, SourceRole};
use schemas::ids::{OrgId, SessionId};
use schemas::secrets::SecretHash;
use std::collections::HashMap;

/// Which session an event belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    /// None.
    Free,
    /// The reporter's own.
    Own(SessionId),
    /// The one behind a click token, of the organisation that issued it.
    Clicked { token: SecretHash, org: OrgId, session: SessionId },
    /// The one behind a click token that nobody can look up now; it must turn out to be the one the reporter names,
    /// if it names one.
    Unresolved { token: SecretHash, named: Option<SessionId> },
}

/// A click token of the request that is not known to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Presented {
    pub(crate) hash: SecretHash,
    /// What it stands for; none when it cannot be looked up now.
    pub(crate) clicked: Option<(OrgId, SessionId)>,
}

/// The request's click tokens; one that is absent is unknown or expired.
pub(crate) type Tokens = HashMap<String, Presented>;

/// The token an event goes by: its own, else the envelope's.
pub(crate) fn token_of<'a>(event: &'a ValidEvent<'_>, context: &'a Context<'_>) -> Option<&'a str> {
    event.ctx_token.as_deref().or_else(|| context.ctx_token.as_deref().filter(|_| may_carry_token(&event.event_type)))
}

/// Binds one event, or adds the fault that says why it cannot be.
pub(crate) fn bind_session(event: &ValidEvent<'_>, context: &Context<'_>, tokens: &Tokens, faults: &mut Faults) -> Binding {
    let member = Member("ctx_token");
    if context.is_whole_session && event.session_id.is_some_and(|session| Some(session) != context.session_id) {
        faults.add(Member("session_id"), "session_mismatch", "an event of a whole session belongs to that session");
        return Binding::Free;
    }
    let own = event.session_id.or(context.session_id);
    let Some(token) = token_of(event, context) else {
        require_session(event, own.is_some() || context.is_binding_unclear, faults);
        return own.map_or(Binding::Free, Binding::Own);
    };
    if !may_carry_token(&event.event_type) {
        faults.add(member, "not_allowed", format!("{} may not carry a ctx_token", event.event_type));
        return Binding::Free;
    }
    let Some(Presented { hash: token, clicked }) = tokens.get(token).copied() else {
        faults.add(member, "unknown_token", "the click token is unknown or expired");
        return Binding::Free;
    };
    let Some((org, session)) = clicked else { return Binding::Unresolved { token, named: own } };
    if own.is_some_and(|own| own != session) {
        faults.add(member, "session_mismatch", "the click token belongs to another session than session_id");
    }
    Binding::Clicked { token, org, session }
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
