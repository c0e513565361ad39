//! Determines an event's session: its own, the envelope's, or a click token's (docs/api/events.md#session-binding).

use super::{Context, Faults, Member, ValidEvent};
use schemas::event::{EventFamily, EventType, SourceRole};
use schemas::ids::{OrgId, SessionId};
use schemas::secrets::{PlainClickToken, SecretHash};
use schemas::site::Site;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Binding {
    Unbound,
    Own(SessionId),
    /// The click token's session. Only the token's issuer may also name a session.
    Clicked {
        token: SecretHash,
        click: Arc<ClickedLink>,
        named: Option<SessionId>,
    },
    /// The session of a click token that can't be looked up now, or else the session that the reporter names.
    Unresolved {
        token: SecretHash,
        named: Option<SessionId>,
    },
    /// The session that the reporter names, if any, next to a click token that doesn't bind the event.
    WithUnusedToken {
        token: SecretHash,
        named: Option<SessionId>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClickedLink {
    /// The organization that issued the token and owns the session.
    pub(crate) org: OrgId,
    pub(crate) session: SessionId,
    /// The URL of the link that contained the token.
    pub(crate) url: String,
    pub(crate) site: Option<Site>,
}

/// A click token in the request that may be valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PresentedToken {
    pub(crate) hash: SecretHash,
    /// Its session and link; `None` if it can't be looked up now.
    pub(crate) click: Option<Arc<ClickedLink>>,
}

/// The request's click tokens. Unknown and expired ones are missing.
pub(crate) type Tokens = HashMap<String, PresentedToken>;

/// Returns the token that may bind an event: its own, or else the envelope's.
pub(crate) fn token_of<'a>(event: &'a ValidEvent<'_>, context: &'a Context<'_>) -> Option<&'a str> {
    event.ctx_token.as_deref().or(context.ctx_token.as_deref()).filter(|_| may_be_bound(&event.event_type))
}

/// Returns whether only a click token can bind the event.
pub(super) fn requires_token(event: &ValidEvent<'_>, context: &Context<'_>) -> bool {
    token_of(event, context).is_some() && session_of(event, context).is_none()
}

pub(crate) fn bind_session(event: &ValidEvent<'_>, context: &Context<'_>, tokens: &Tokens, faults: &mut Faults) -> Binding {
    if context.is_whole_session && event.session_id.is_some_and(|session| Some(session) != context.session_id) {
        faults.add(Member("session_id"), "session_mismatch", "session_id must be the document's session_id");
        return Binding::Unbound;
    }
    let named = session_of(event, context);
    let Some(token) = token_of(event, context) else {
        require_session(event, named.is_some() || context.is_binding_unclear, faults);
        return match (event.ctx_token.as_deref().map(hash), named) {
            (Some(token), named) => Binding::WithUnusedToken { token, named },
            (None, Some(named)) => Binding::Own(named),
            (None, None) => Binding::Unbound,
        };
    };
    match (tokens.get(token), named) {
        (Some(PresentedToken { hash, click: None }), named) => Binding::Unresolved { token: *hash, named },
        // The session id is the reporter's own. The result must not depend on whether the token's session has the same id, or the reporter
        // could find out which session the token belongs to.
        (Some(PresentedToken { hash, click: Some(click) }), Some(_)) if click.org != context.reporter => {
            Binding::WithUnusedToken { token: *hash, named }
        }
        (Some(PresentedToken { hash, click: Some(click) }), named) => {
            if named.is_some_and(|named| named != click.session) {
                let detail = "the click token belongs to a session other than session_id";
                faults.add(Member("ctx_token"), "session_mismatch", detail);
            }
            Binding::Clicked { token: *hash, click: Arc::clone(click), named }
        }
        // In practice, documents contain other issuers' tokens.
        (None, Some(_)) => Binding::WithUnusedToken { token: hash(token), named },
        (None, None) => {
            faults.add(Member("ctx_token"), "unknown_token", "the click token is unknown or expired");
            Binding::Unbound
        }
    }
}

fn session_of(event: &ValidEvent<'_>, context: &Context<'_>) -> Option<SessionId> {
    event.session_id.or(context.session_id)
}

fn hash(token: &str) -> SecretHash {
    PlainClickToken::presented(token).hash()
}

fn may_be_bound(event_type: &EventType) -> bool {
    *event_type == EventType::ContentEngaged || event_type.family() == EventFamily::Checkout
}

/// Requires a session, except for fetches observed by an edge, an origin or an index.
fn require_session(event: &ValidEvent<'_>, has_session: bool, faults: &mut Faults) {
    let is_observer = matches!(event.source_role, Some(SourceRole::Origin | SourceRole::Edge | SourceRole::Index));
    // An unknown role or an invalid session already has a fault.
    let is_unclear = (event.source_role.is_none() && event.members.get("source_role").is_some())
        || event.members.get("session_id").is_some()
        || (event.members.get("ctx_token").is_some() && event.ctx_token.is_none());
    let is_retrieval = event.event_type == EventType::ContentRetrieved;
    if has_session || (is_retrieval && is_observer) || is_unclear {
        return;
    }
    let detail = match is_retrieval {
        true => {
            "content_retrieved requires a session_id (create one with POST /sessions/start) unless source_role is origin, edge or index"
                .to_owned()
        }
        false if may_be_bound(&event.event_type) => format!("{} requires a session_id or a ctx_token", event.event_type),
        false => format!("{} requires a session_id", event.event_type),
    };
    faults.add(Member("session_id"), "required", detail);
}
