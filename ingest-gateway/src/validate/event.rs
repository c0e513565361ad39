//! One event: its members, and the rules between them.
//!
//! Must not reach for anything outside its arguments.

use super::{Faults, Member, members};
use crate::envelope::Envelope;
use crate::limits::{Limits, MAX_DATA_LEVELS};
use crate::privacy::TURN;
use crate::raw::{RawObject, as_str};
use chrono::{DateTime, Utc};
use schemas::event::{EventFamily, EventType, SourceRole};
use schemas::ids::SessionId;
use schemas::session::PrivacyLevel;
use schemas::site::ContentUrl;
use serde_json::value::RawValue;
use service_kit::auth::Caller;

/// Members this build knows on an event; every other one is kept as written.
pub(crate) const KNOWN: &[&str] = &[
    "id",
    "type",
    "timestamp",
    "source_role",
    "content_url",
    "content_id",
    "content_telemetry_id",
    "session_id",
    "ctx_token",
    "turn_id",
    "output_id",
    "data",
    TURN,
];

/// What validation needs to know besides the event.
pub(crate) struct Context<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) now: DateTime<Utc>,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) agent_id: Option<String>,
    pub(crate) ctx_token: Option<String>,
    /// Declared by the envelope or the session; absent says nothing.
    pub(crate) privacy_level: Option<PrivacyLevel>,
    /// Every event belongs to the one session that the request carries.
    pub(crate) is_whole_session: bool,
}

impl<'a> Context<'a> {
    /// Nothing said for all events.
    pub(crate) fn new(limits: &'a Limits, now: DateTime<Utc>, _caller: &Caller) -> Self {
        Self { limits, now, session_id: None, agent_id: None, ctx_token: None, privacy_level: None, is_whole_session: false }
    }

    /// Reads what the envelope says for all of its events.
    pub(crate) fn of(
        envelope: &Envelope<'_>,
        limits: &'a Limits,
        now: DateTime<Utc>,
        caller: &Caller,
        faults: &mut Faults,
    ) -> Self {
        Self {
            session_id: members::session(envelope.session_id, Member("session_id"), faults),
            agent_id: members::text(envelope.agent_id, Member("agent_id"), faults),
            ctx_token: members::text(envelope.ctx_token, Member("ctx_token"), faults),
            privacy_level: envelope.privacy_level,
            ..Self::new(limits, now, caller)
        }
    }
}

/// An event with its members read. It keeps every rule when no fault was added for it.
#[derive(Debug)]
pub(crate) struct ValidEvent<'a> {
    pub(crate) id: Option<String>,
    pub(crate) event_type: EventType,
    pub(crate) at_ms: i64,
    pub(crate) source_role: Option<SourceRole>,
    pub(crate) content_url: Option<ContentUrl>,
    pub(crate) content_id: Option<String>,
    pub(crate) content_telemetry_id: Option<String>,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) ctx_token: Option<String>,
    pub(crate) turn_id: Option<String>,
    pub(crate) output_id: Option<String>,
    pub(crate) data: Option<&'a RawValue>,
    pub(crate) turn: Option<&'a RawValue>,
    pub(crate) members: RawObject<'a>,
}

/// Checks one event by itself; its session is bound afterwards (`bind`). `None` means that it has no readable type.
pub(crate) fn validate_event<'a>(event: &'a RawValue, context: &Context<'_>, faults: &mut Faults) -> Option<ValidEvent<'a>> {
    let object = match RawObject::parse(event.get()) {
        Ok(object) => object,
        Err(why) => {
            faults.add(Member("event"), "wrong_type", format!("an event must be an object: {why}"));
            return None;
        }
    };
    for name in KNOWN.iter().filter(|name| object.repeats(name)) {
        faults.add(Member(name), "repeated", format!("the member {name} stands twice"));
    }

    let event_type = read_type(&object, faults);
    let source_role = read_role(&object, faults);
    let at_ms = members::instant(&object, Member("timestamp"), context.now, context.limits.max_ahead(), faults);
    if object.get("timestamp").is_none() {
        faults.add(Member("timestamp"), "required", "timestamp is required");
    }
    let event = ValidEvent {
        id: members::id(object.get("id"), Member("id"), faults),
        event_type: event_type?,
        at_ms: at_ms.unwrap_or_default(),
        source_role,
        content_url: members::url(object.get("content_url"), Member("content_url"), faults),
        content_id: members::text(object.get("content_id"), Member("content_id"), faults),
        content_telemetry_id: members::id(object.get("content_telemetry_id"), Member("content_telemetry_id"), faults),
        session_id: members::session(object.get("session_id"), Member("session_id"), faults),
        ctx_token: members::text(object.get("ctx_token"), Member("ctx_token"), faults),
        turn_id: members::text(object.get("turn_id"), Member("turn_id"), faults),
        output_id: members::text(object.get("output_id"), Member("output_id"), faults),
        data: members::object(&object, Member("data"), context.limits.max_data_bytes, MAX_DATA_LEVELS, faults),
        turn: members::object(&object, Member(TURN), context.limits.max_data_bytes, MAX_DATA_LEVELS, faults),
        members: object,
    };
    check_role(&event, faults);
    check_content(&event, faults);
    Some(event)
}

fn read_type(object: &RawObject<'_>, faults: &mut Faults) -> Option<EventType> {
    let member = Member("type");
    let Some(value) = object.get("type") else {
        faults.add(member, "required", "type is required");
        return None;
    };
    let name = as_str(value);
    let parsed = name.as_deref().and_then(EventType::parse);
    if parsed.is_none() {
        let hint = match name.as_deref() {
            Some("content_displayed") => "content_displayed is now content_presented",
            Some(_) => "type must be a specified type, a checkout_* name or a namespaced name with a dot",
            None => "type must be a string",
        };
        faults.add(member, "unknown_type", hint);
    }
    parsed
}

fn read_role(object: &RawObject<'_>, faults: &mut Faults) -> Option<SourceRole> {
    let role = as_str(object.get("source_role")?).and_then(|name| SourceRole::parse(&name));
    if role.is_none() {
        faults.add(Member("source_role"), "unknown_value", "source_role is origin, edge, index or agent");
    }
    role
}

fn check_role(event: &ValidEvent<'_>, faults: &mut Faults) {
    if let Some(role) = event.source_role.filter(|role| !event.event_type.allows(*role)) {
        let detail = format!("{} may not be reported by {}", event.event_type, role.as_str());
        faults.add(Member("source_role"), "not_allowed", detail);
    }
}

fn check_content(event: &ValidEvent<'_>, faults: &mut Faults) {
    let is_named = event.members.get("content_url").is_some() || event.members.get("content_id").is_some();
    if event.event_type.family() == EventFamily::Content && !is_named {
        faults.add(Member("content_url"), "required", format!("{} needs content_url or content_id", event.event_type));
    }
}
