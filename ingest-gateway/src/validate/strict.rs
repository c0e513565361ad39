//! Strict mode: all public 1.0 rules (docs/api/events.md#strict-mode), for keys or gateways that enable it. The looser rules in `validate`
//! apply as well.
//!
//! It only adds faults that the looser rules don't find, and reports all of them together. Accepted events are stored as in default mode.
//!
//! Where docs/api and the public rules differ, docs/api takes precedence: click tokens may start with `ctx_` as well as `ct_`, an event may
//! name its own session, and `checkout_completed` may have a token.

mod shape;
mod schema_tables;
mod document_rules;

pub(crate) use document_rules::{check_envelope, check_session};

use super::{Faults, Member};
use crate::privacy::{self, IP_HASH, TURN};
use crate::request::raw_json::RawObject;
use schemas::event::{EventFamily, EventType};
use schemas::session::PrivacyLevel;
use shape::check;

/// The document's facts that the public rules for its events need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DocumentKind {
    Envelope {
        /// Whether the envelope has a click token. Only then may an engagement lack a presentation.
        has_token: bool,
    },
    /// A session document, whose agent saw every presentation.
    Session,
}

/// Dotted names of `data` members that the standard or older emitters use.
pub(super) fn known_in_data() -> Box<dyn Iterator<Item = &'static str>> {
    let rules = EventType::SPECIFIED.iter().flat_map(schema_tables::data).map(|rule| rule.field);
    Box::new(rules.chain(["data.bot_category", "data.display_type"]))
}

/// Dotted names of `turn` members in the standard.
pub(super) fn known_in_turn() -> Box<dyn Iterator<Item = &'static str>> {
    Box::new(schema_tables::TURN.iter().map(|rule| rule.field))
}

pub(super) use shape::last_part;

/// Adds one event's faults under the public rules. `level` is the level in the envelope.
pub(super) fn check_event(event: &RawObject<'_>, around: DocumentKind, level: Option<PrivacyLevel>, faults: &mut Faults) {
    check(event, schema_tables::EVENT, faults);
    let Some(event_type) = event.get("type").and_then(crate::request::raw_json::as_str).and_then(|name| EventType::parse(&name))
    else {
        return;
    };
    check_type(&event_type, faults);
    check_required(event, &event_type, around, faults);
    check_place(event, &event_type, faults);
    check_data(event, &event_type, faults);
    check_turn(event, level, faults);
}

/// Rejects extension types, because the schema's list is closed.
fn check_type(event_type: &EventType, faults: &mut Faults) {
    if matches!(event_type, EventType::Extension(_)) {
        faults.add(Member("type"), "unknown_type", format!("{event_type} is not an event type of version 1.0"));
    }
}

fn check_required(event: &RawObject<'_>, event_type: &EventType, around: DocumentKind, faults: &mut Faults) {
    let mut needed = schema_tables::required(event_type).to_vec();
    if *event_type == EventType::ContentEngaged && around != (DocumentKind::Envelope { has_token: true }) {
        needed.push("presentation_id");
    }
    for name in needed.into_iter().filter(|name| event.get(name).is_none()) {
        faults.add(Member(name), "required", format!("{event_type} requires {name}"));
    }
}

/// Rejects members that are only allowed on other types.
fn check_place(event: &RawObject<'_>, event_type: &EventType, faults: &mut Faults) {
    let may_carry_token = matches!(event_type, EventType::ContentEngaged) || event_type.family() == EventFamily::Checkout;
    for (name, belongs) in [("ctx_token", may_carry_token), ("citation_id", *event_type == EventType::ContentPresented)] {
        if !belongs && event.get(name).is_some() {
            faults.add(Member(name), "not_allowed", format!("{event_type} must not contain {name}"));
        }
    }
}

fn check_data(event: &RawObject<'_>, event_type: &EventType, faults: &mut Faults) {
    if event.get(IP_HASH).is_some() {
        faults.add(Member(IP_HASH), "withdrawn", "ip_hash was removed from the standard");
    }
    let Some(data) = event.object("data") else { return };
    if data.get(IP_HASH).is_some() {
        faults.add(Member("data.ip_hash"), "withdrawn", "ip_hash was removed from the standard");
    }
    check(&data, schema_tables::data(event_type), faults);
    if *event_type == EventType::ContentGrounded
        && let Some(fingerprint) = data.object("content_fingerprint")
    {
        check(&fingerprint, schema_tables::FINGERPRINT, faults);
    }
}

/// Rejects members that default mode would remove.
fn check_turn(event: &RawObject<'_>, level: Option<PrivacyLevel>, faults: &mut Faults) {
    let Some(turn) = event.object(TURN) else { return };
    check(&turn, schema_tables::TURN, faults);
    let level = privacy::turn_level(&turn, level);
    for rule in schema_tables::TURN {
        if turn.get(rule.name()).is_some() && !privacy::allows(level, rule.name()) {
            let detail = format!("{} must not be sent at privacy_level {}", rule.name(), level.as_str());
            faults.add(Member(rule.field), "privacy_violation", detail);
        }
    }
}

#[cfg(test)]
mod tests;
