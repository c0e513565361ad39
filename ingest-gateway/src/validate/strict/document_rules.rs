//! The public rules for a whole document: its own members, and combinations of events.

use super::schema_tables;
use super::shape::check;
use crate::request::raw_json::{RawObject, as_array, as_str};
use crate::validate::{Faults, Member};
use schemas::event_key::canonical_id;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};

/// Adds an envelope's faults. Call it before any event is entered.
pub(crate) fn check_envelope(envelope: &RawObject<'_>, events: &[&RawValue], faults: &mut Faults) {
    check(envelope, schema_tables::ENVELOPE, faults);
    require_member_of_type(envelope, faults);
    let events = read(events);
    require_session(envelope, &events, faults);
    require_engagements(envelope, &events, faults);
    check_side_by_side(&events, faults);
}

/// Adds a session document's faults. Call it before any event is entered.
pub(crate) fn check_session(session: &RawObject<'_>, events: &[&RawValue], faults: &mut Faults) {
    check(session, schema_tables::SESSION, faults);
    check_identifiers(session, faults);
    check_side_by_side(&read(events), faults);
}

/// An event with its position in the document. Events that aren't objects already have a fault.
type Placed<'a> = (usize, RawObject<'a>);

fn read<'a>(events: &[&'a RawValue]) -> Vec<Placed<'a>> {
    let parsed = events.iter().enumerate().map(|(index, event)| RawObject::parse(event.get()).map(|event| (index, event)));
    parsed.filter_map(Result::ok).collect()
}

fn text(object: &RawObject<'_>, name: &str) -> Option<String> {
    object.get(name).and_then(as_str).map(std::borrow::Cow::into_owned)
}

/// Requires the member that contains events in this document type.
fn require_member_of_type(envelope: &RawObject<'_>, faults: &mut Faults) {
    let needed = match text(envelope, "document_type").as_deref() {
        Some("event") => "event",
        Some("event_batch") => "events",
        _ => return,
    };
    if envelope.get(needed).is_none() {
        faults.add(Member(needed), "required", format!("{needed} is required for this document_type"));
    }
}

/// Allows only fetches in a document without a session or token.
fn require_session(envelope: &RawObject<'_>, events: &[Placed<'_>], faults: &mut Faults) {
    let is_bound = |object: &RawObject<'_>| object.get("session_id").is_some() || object.get("ctx_token").is_some();
    let needs_session = |event: &RawObject<'_>| text(event, "type").as_deref() != Some("content_retrieved") && !is_bound(event);
    if !is_bound(envelope) && events.iter().any(|(_, event)| needs_session(event)) {
        let detail = "a document without session_id and ctx_token can contain only content_retrieved events";
        faults.add(Member("session_id"), "required", detail);
    }
}

/// Allows only engagements and, beyond the public rules, completed checkouts with the envelope's token.
fn require_engagements(envelope: &RawObject<'_>, events: &[Placed<'_>], faults: &mut Faults) {
    if envelope.get("ctx_token").is_none() {
        return;
    }
    let others = events.iter().filter_map(|(_, event)| text(event, "type"));
    let others = others.filter(|name| name != "content_engaged" && name != "checkout_completed");
    for name in others.collect::<HashSet<_>>() {
        faults.add(Member("ctx_token"), "not_allowed", format!("the envelope's ctx_token can't be used with {name}"));
    }
}

fn check_side_by_side(events: &[Placed<'_>], faults: &mut Faults) {
    let mut ids = HashSet::new();
    let mut presentations = HashMap::new();
    for (index, event) in events {
        faults.enter(*index);
        if let Some(id) = text(event, "id")
            && !ids.insert(canonical_id(&id))
        {
            faults.add(Member("id"), "duplicate", "id is already used by an earlier event of the document");
        }
        let Some(token) = text(event, "ctx_token") else { continue };
        let Some(presentation) = text(event, "presentation_id") else { continue };
        let presentation = canonical_id(&presentation);
        if *presentations.entry(token).or_insert_with(|| presentation.clone()) != presentation {
            faults.add(
                Member("ctx_token"),
                "shared",
                "ctx_token is used with two presentation_ids, but belongs to one presentation",
            );
        }
    }
    faults.leave();
}

fn check_identifiers(session: &RawObject<'_>, faults: &mut Faults) {
    let Some(context) = session.object("data").and_then(|data| data.get("access_context")) else { return };
    let Ok(context) = RawObject::parse(context.get()) else {
        return faults.add(Member("data.access_context"), "wrong_type", "data.access_context must be an object");
    };
    let member = Member("data.access_context.identifiers");
    let Some(identifiers) = context.get("identifiers") else { return };
    let Some(identifiers) = as_array(identifiers) else {
        return faults.add(member, "wrong_type", "data.access_context.identifiers must be an array");
    };
    for identifier in identifiers {
        match RawObject::parse(identifier.get()) {
            Ok(identifier) => check(&identifier, schema_tables::IDENTIFIER, faults),
            Err(_) => faults.add(member, "wrong_type", "an identifier must be an object"),
        }
    }
}
