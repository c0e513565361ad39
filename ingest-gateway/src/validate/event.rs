//! One event: its members, and the rules between them.
//!
//! Must not reach for anything outside its arguments.

use super::bind::goes_by_token;
use super::strict::{self, Around};
use super::{Faults, Member, members, repeats};
use crate::bodies;
use crate::envelope::Envelope;
use crate::limits::{Limits, MAX_DATA_LEVELS};
use crate::privacy::TURN;
use crate::raw::{RawObject, as_str};
use crate::sessions::Told;
use crate::tolerate::{DISPLAYED, OLD_TELEMETRY_ID};
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
    OLD_TELEMETRY_ID,
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
    /// What the envelope says of its session besides.
    pub(crate) told: Told,
    /// The document's session or token does not parse: a fault of its own, so none is missed on its events.
    pub(crate) is_binding_unclear: bool,
    /// Every event belongs to the one session that the request carries.
    pub(crate) is_whole_session: bool,
    /// No version is declared, or one older than 1.0: old names mean what they meant.
    pub(crate) is_before_1_0: bool,
    /// The public rules are in force.
    pub(crate) is_strict: bool,
}

impl<'a> Context<'a> {
    /// Nothing said for all events.
    pub(crate) fn new(limits: &'a Limits, now: DateTime<Utc>, caller: &Caller) -> Self {
        Self {
            limits,
            now,
            session_id: None,
            agent_id: None,
            ctx_token: None,
            privacy_level: None,
            told: Told::default(),
            is_binding_unclear: false,
            is_whole_session: false,
            is_before_1_0: true,
            is_strict: limits.strict || caller.strict,
        }
    }

    /// Reads what the envelope says for all of its events.
    pub(crate) fn of(
        envelope: &Envelope<'_>,
        limits: &'a Limits,
        now: DateTime<Utc>,
        caller: &Caller,
        faults: &mut Faults,
    ) -> Self {
        let context = Self::new(limits, now, caller);
        if context.is_strict {
            strict::check_envelope(&envelope.members, &envelope.events, faults);
        }
        let session_id = members::session(envelope.session_id, Member("session_id"), faults);
        let ctx_token = members::text(envelope.ctx_token, Member("ctx_token"), faults);
        Self {
            is_binding_unclear: (envelope.session_id.is_some() && session_id.is_none())
                || (envelope.ctx_token.is_some() && ctx_token.is_none()),
            session_id,
            agent_id: members::text(envelope.agent_id, Member("agent_id"), faults),
            ctx_token,
            privacy_level: envelope.privacy_level,
            told: envelope.told.clone(),
            is_before_1_0: bodies::is_before_1_0(&envelope.members),
            ..context
        }
    }

    /// What the public rules take from the document.
    fn around(&self) -> Around {
        if self.is_whole_session { Around::Session } else { Around::Envelope { has_token: self.ctx_token.is_some() } }
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
    /// Declared around the event.
    pub(crate) privacy_level: Option<PrivacyLevel>,
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
    repeats::check(&object, faults);
    if context.is_strict {
        strict::check_event(&object, context.around(), context.privacy_level, faults);
    }

    let event_type = read_type(&object, context, faults);
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
        content_telemetry_id: read_telemetry_id(&object, faults),
        session_id: members::session(object.get("session_id"), Member("session_id"), faults),
        ctx_token: members::text(object.get("ctx_token"), Member("ctx_token"), faults),
        turn_id: members::text(object.get("turn_id"), Member("turn_id"), faults),
        output_id: members::text(object.get("output_id"), Member("output_id"), faults),
        data: members::object(&object, Member("data"), context.limits.max_data_bytes, MAX_DATA_LEVELS, faults),
        turn: members::object(&object, Member(TURN), context.limits.max_data_bytes, MAX_DATA_LEVELS, faults),
        privacy_level: context.privacy_level,
        members: object,
    };
    check_role(&event, faults);
    check_content(&event, context, faults);
    members::check_unknown(&event.members, KNOWN, Member("event"), context.limits.max_data_bytes, faults);
    Some(event)
}

fn read_type(object: &RawObject<'_>, context: &Context<'_>, faults: &mut Faults) -> Option<EventType> {
    let member = Member("type");
    let Some(value) = object.get("type") else {
        faults.add(member, "required", "type is required");
        return None;
    };
    let name = as_str(value);
    if name.as_deref() == Some(DISPLAYED) && context.is_before_1_0 {
        return Some(EventType::ContentPresented);
    }
    let parsed = name.as_deref().and_then(EventType::parse);
    if parsed.is_none() {
        let hint = match name.as_deref() {
            Some(DISPLAYED) => "content_displayed is content_presented since version 1.0",
            Some(_) => {
                "type must be a specified type, a checkout_*, product_* or cart_* name of the clients, or a namespaced name with a dot"
            }
            None => "type must be a string",
        };
        faults.add(member, "unknown_type", hint);
    }
    parsed
}

/// Under its present name, else under its old one.
fn read_telemetry_id(object: &RawObject<'_>, faults: &mut Faults) -> Option<String> {
    let present = Member("content_telemetry_id");
    let member = if object.get(present.0).is_some() { present } else { Member(OLD_TELEMETRY_ID) };
    members::id(object.get(member.0), member, faults)
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

/// What an event is about. One that goes by a click token is about the token's link; the public rules know no such thing.
fn check_content(event: &ValidEvent<'_>, context: &Context<'_>, faults: &mut Faults) {
    let is_named = event.members.get("content_url").is_some() || event.members.get("content_id").is_some();
    let is_named = is_named || (!context.is_strict && goes_by_token(event, context));
    if event.event_type.family() == EventFamily::Content && !is_named {
        faults.add(Member("content_url"), "required", format!("{} needs content_url or content_id", event.event_type));
    }
}
