//! Validates one event: its members, and the rules between them.

use super::context::{Context, ValidEvent};
use super::old_names::{DISPLAYED, OLD_TELEMETRY_ID};
use super::session_binding::requires_token;
use super::typed_members::KNOWN;
use super::{Faults, Member, repeated_members, strict, timestamps, typed_members};
use crate::privacy::TURN;
use crate::request::raw_json::{RawObject, as_str};
use schemas::event::{EventFamily, EventType, SourceRole};
use schemas::event_key::canonical_telemetry_id;
use serde_json::value::RawValue;

/// Validates one event, except for its session (see `bind`). Returns `None` if its type is invalid.
pub(crate) fn validate_event<'a>(event: &'a RawValue, context: &Context<'_>, faults: &mut Faults) -> Option<ValidEvent<'a>> {
    let object = match RawObject::parse(event.get()) {
        Ok(object) => object,
        Err(why) => return faults.reject(Member("event"), "wrong_type", format!("an event must be an object: {why}")),
    };
    repeated_members::check(&object, faults);
    if context.is_strict {
        strict::check_event(&object, context.document_kind(), context.privacy_level, faults);
    }

    let event_type = read_type(&object, context, faults);
    let detail = "source_role must be one of: origin, edge, index, agent";
    let source_role = typed_members::known(object.get("source_role"), Member("source_role"), SourceRole::parse, detail, faults);
    let at_ms = timestamps::instant(&object, Member("timestamp"), context.now, context.limits.max_ahead(), faults);
    if object.get("timestamp").is_none() {
        faults.add(Member("timestamp"), "required", "timestamp is required");
    }
    let event = ValidEvent {
        id: typed_members::id(object.get("id"), Member("id"), faults),
        event_type: event_type?,
        at_ms: at_ms.unwrap_or_default(),
        source_role,
        content_url: typed_members::url(object.get("content_url"), Member("content_url"), faults),
        content_id: typed_members::text(object.get("content_id"), Member("content_id"), faults),
        content_telemetry_id: read_telemetry_id(&object, faults),
        session_id: typed_members::session(object.get("session_id"), Member("session_id"), faults),
        ctx_token: typed_members::text(object.get("ctx_token"), Member("ctx_token"), faults),
        turn_id: typed_members::text(object.get("turn_id"), Member("turn_id"), faults),
        output_id: typed_members::text(object.get("output_id"), Member("output_id"), faults),
        data: typed_members::object(&object, Member("data"), context.limits.max_data_bytes, faults),
        turn: typed_members::object(&object, Member(TURN), context.limits.max_data_bytes, faults),
        privacy_level: context.privacy_level,
        members: object,
    };
    check_role(&event, faults);
    check_content(&event, context, faults);
    typed_members::check_unknown(&event.members, KNOWN, Member("event"), context.limits.max_data_bytes, faults);
    Some(event)
}

fn read_type(object: &RawObject<'_>, context: &Context<'_>, faults: &mut Faults) -> Option<EventType> {
    let member = Member("type");
    let Some(value) = object.get("type") else { return faults.reject(member, "required", "type is required") };
    let name = as_str(value);
    if name.as_deref() == Some(DISPLAYED) && context.is_before_1_0 {
        return Some(EventType::ContentPresented);
    }
    name.as_deref().and_then(EventType::parse).or_else(|| {
        let hint = match name.as_deref() {
            Some(DISPLAYED) => "content_displayed was renamed to content_presented in version 1.0",
            Some(_) => "type must be a standard type, a checkout_*, product_* or cart_* type, or a namespaced name with a dot",
            None => "type must be a string",
        };
        faults.reject(member, "unknown_type", hint)
    })
}

/// Reads the id under its current or old name. A placeholder counts as absent and doesn't break a rule.
fn read_telemetry_id(object: &RawObject<'_>, faults: &mut Faults) -> Option<String> {
    let present = Member("content_telemetry_id");
    let member = if object.get(present.0).is_some() { present } else { Member(OLD_TELEMETRY_ID) };
    typed_members::text(object.get(member.0), member, faults).and_then(|id| canonical_telemetry_id(&id))
}

fn check_role(event: &ValidEvent<'_>, faults: &mut Faults) {
    if let Some(role) = event.source_role.filter(|role| !event.event_type.allows(*role)) {
        let detail = format!("{} can't be reported by {}", event.event_type, role.as_str());
        faults.add(Member("source_role"), "not_allowed", detail);
    }
}

/// Requires a URL or content id. An event bound only by a click token uses the token's link, except in strict mode.
fn check_content(event: &ValidEvent<'_>, context: &Context<'_>, faults: &mut Faults) {
    let is_named = event.members.get("content_url").is_some() || event.members.get("content_id").is_some();
    let is_named = is_named || (!context.is_strict && requires_token(event, context));
    if event.event_type.family() == EventFamily::Content && !is_named {
        faults.add(Member("content_url"), "required", format!("{} requires content_url or content_id", event.event_type));
    }
}
