//! Creates a session's document: standard members in their place, everything else under `extensions`. Pure.

use super::Facts;
use crate::event_data::{self, Members};
use crate::parameters::event_filter::ReportedBy;
use crate::reads::{SessionEvent, SessionEvents};
use chrono::{DateTime, Utc};
use schemas::event::{EventFamily, EventType, SourceRole};
use schemas::ids::SessionId;
use schemas::instant;
use schemas::session::PrivacyLevel;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use url::Url;
use uuid::Uuid;

/// A standard member, and the check that its value must pass.
type Standard<'a> = (&'a str, fn(&Value) -> bool);

/// Standard session members that are stored as unknown members.
const SESSION_MEMBERS: &[Standard<'static>] = &[
    ("parent_session_id", is_uuid),
    ("conformance_level", |value| matches!(value.as_str(), Some("retrieval" | "grounding" | "citation"))),
    ("data", |value| value.is_object() || value.is_null()),
];
/// Members of both an upload and an event's envelope. An upload's manifest is checked when it is accepted.
const ENVELOPE_MEMBERS: &[Standard<'static>] = &[("parent_session_id", is_uuid), ("manifest_ref", is_uri)];
/// Standard event members that are stored as unknown members.
const EVENT_MEMBERS: &[Standard<'static>] = &[
    ("output_element_id", is_text),
    ("citation_id", is_uuid),
    ("presentation_id", is_uuid),
    ("license_ref", is_text_or_null),
    ("terms_ref", is_text_or_null),
    ("turn", |value| value.is_null() || value.get("privacy_level").is_some()),
];
const EXTENSIONS: &str = "extensions";

fn is_uuid(value: &Value) -> bool {
    value.as_str().is_some_and(|text| Uuid::try_parse(text).is_ok_and(|id| id.to_string() == text.to_lowercase()))
}

fn is_uri(value: &Value) -> bool {
    value.as_str().is_some_and(|text| Url::parse(text).is_ok() && !text.contains(|c: char| !c.is_ascii_graphic()))
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn is_text_or_null(value: &Value) -> bool {
    value.is_string() || value.is_null()
}

#[derive(Default)]
struct Parts {
    members: Members,
    extensions: Members,
}

impl Parts {
    fn put<T: Serialize>(&mut self, name: &str, value: T) {
        self.members.insert(name.to_owned(), raw(&value));
    }

    fn put_some<T: Serialize>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn extend<T: Serialize>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.extensions.insert(name.to_owned(), raw(&value));
        }
    }

    /// Adds unknown members: valid standard ones as members, others as extensions.
    fn sort_in(&mut self, object: &str, standard: &[Standard<'_>]) {
        for (name, value) in parse(object) {
            self.sort_in_one(name, value, standard);
        }
    }

    fn sort_in_one(&mut self, name: String, value: Box<RawValue>, standard: &[Standard<'_>]) {
        let rule = standard.iter().find(|(known, _)| *known == name).map(|(_, rule)| rule);
        // Parsing fails for numbers that exceed a double, but no check needs numbers.
        let is_standard = rule.is_some_and(|rule| serde_json::from_str(value.get()).is_ok_and(|value| rule(&value)));
        let target = if is_standard { &mut self.members } else { &mut self.extensions };
        target.entry(name).or_insert(value);
    }

    fn finish(mut self) -> Box<RawValue> {
        if !self.extensions.is_empty() {
            self.members.insert(EXTENSIONS.to_owned(), raw(&self.extensions));
        }
        raw(&self.members)
    }
}

pub(super) fn document(session: SessionId, facts: &Facts, events: &[SessionEvent], clicks: SessionEvents) -> Box<RawValue> {
    let mut parts = Parts::default();
    parts.put("document_type", "session");
    parts.put("schema_version", "1.0");
    parts.put("session_id", session);
    let agent = agent_of(facts, events);
    parts.put_some("agent_id", agent);
    parts.put_some("content_scope", facts.content_scope.as_ref());
    parts.put("started_at", instant::text(started_at(facts, events)));
    parts.put_some("ended_at", facts.ended_at.map(instant::text));
    parts.extend("initiator_type", Some(&facts.initiator_type));
    parts.extend("external_session_id", facts.external_session_id.as_ref());
    parts.extend("prior_session_ids", Some(&facts.prior_session_ids).filter(|sessions| !sessions.is_empty()));
    parts.extend("privacy_level", facts.privacy_level.map(PrivacyLevel::from_code));
    let outcome = facts.outcome.as_deref().and_then(|outcome| serde_json::from_str::<Box<RawValue>>(outcome).ok());
    parts.extend("outcome", outcome);
    parts.sort_in(facts.extra.as_deref().unwrap_or_default(), SESSION_MEMBERS);
    for (name, text) in [("parent_session_id", &facts.parent_session_id), ("manifest_ref", &facts.manifest_ref)] {
        if let Some(text) = text {
            parts.sort_in_one(name.to_owned(), raw(text), ENVELOPE_MEMBERS);
        }
    }

    let (core, others): (Vec<&SessionEvent>, Vec<&SessionEvent>) = events.iter().partition(|event| is_of_the_standard(event));
    let written = |events: Vec<&SessionEvent>| events.into_iter().map(|told| event(told, agent)).collect::<Vec<_>>();
    parts.put("events", written(core));
    let mut others = written(others);
    parts.extend("clicks_left_out", Some(true).filter(|_| !clicks.is_whole));
    others.extend(by_others(clicks));
    // Replaces a member that the reporter named `events`.
    parts.extend("events", Some(others).filter(|others| !others.is_empty()));
    parts.finish()
}

/// Returns others' reports with the session's click tokens, by time and with few details.
fn by_others(mut clicks: SessionEvents) -> Vec<Box<RawValue>> {
    clicks.events.sort_by_key(|click| click.at_ms);
    clicks.events.iter().map(by_other).collect()
}

fn by_other(click: &SessionEvent) -> Box<RawValue> {
    let mut parts = Parts::default();
    parts.put("type", &click.event_type);
    parts.put_some("timestamp", DateTime::from_timestamp_millis(click.at_ms).map(instant::text));
    parts.put_some("source_role", SourceRole::from_code(click.role));
    parts.put_some("content_url", Some(&click.content_url).filter(|url| !url.is_empty()));
    let data = event_data::visible_to_issuer(&click.event_type, &click.data);
    parts.put_some("data", Some(data).filter(|data| !data.is_empty()));
    parts.put("reported_by", ReportedBy::Other.as_str());
    parts.finish()
}

/// Returns the session's start, otherwise its first event, otherwise its creation.
fn started_at(facts: &Facts, events: &[SessionEvent]) -> DateTime<Utc> {
    let first = events.iter().map(|event| event.at_ms).min().and_then(DateTime::from_timestamp_millis);
    facts.started_at.or(first).unwrap_or(facts.created_at)
}

/// Returns the session's agent, otherwise the first one that its events name.
fn agent_of<'a>(facts: &'a Facts, events: &'a [SessionEvent]) -> Option<&'a str> {
    let of_events = || events.iter().map(|event| event.agent_id.as_str()).find(|agent| !agent.is_empty());
    facts.agent_id.as_deref().or_else(of_events)
}

/// Returns whether the standard allows the event in a session document. A click reported only by the destination doesn't name a
/// presentation, so it isn't allowed.
fn is_of_the_standard(event: &SessionEvent) -> bool {
    match EventType::parse(&event.event_type) {
        Some(EventType::ContentEngaged) => {
            let presentation = parse(&event.extra).remove("presentation_id");
            presentation.is_some_and(|value| serde_json::from_str(value.get()).is_ok_and(|value| is_uuid(&value)))
        }
        Some(event_type) => matches!(event_type.family(), EventFamily::Content | EventFamily::Turn),
        None => false,
    }
}

/// Returns one event; `agent` is the agent of its session.
fn event(event: &SessionEvent, agent: Option<&str>) -> Box<RawValue> {
    let given = |text: &'_ String| Some(text.clone()).filter(|text| !text.is_empty());
    let mut parts = Parts::default();
    parts.put("type", &event.event_type);
    parts.put_some("timestamp", DateTime::from_timestamp_millis(event.at_ms).map(instant::text));
    parts.put_some("source_role", SourceRole::from_code(event.role));
    for (name, text, must_be_uuid) in [
        ("id", &event.event_id, true),
        ("content_telemetry_id", &event.content_telemetry_id, true),
        ("content_url", &event.content_url, false),
        ("content_id", &event.content_id, false),
        ("turn_id", &event.turn_id, false),
        ("output_id", &event.output_id, false),
    ] {
        if must_be_uuid && Uuid::try_parse(text).is_err() {
            parts.extend(name, given(text));
        } else {
            parts.put_some(name, given(text));
        }
    }
    let data: Option<Box<RawValue>> = serde_json::from_str(&event.data).ok();
    parts.put_some("data", data);
    parts.sort_in(&event.extra, EVENT_MEMBERS);
    // In the standard, a session has one agent.
    if let Some(other) = given(&event.agent_id).filter(|named| Some(named.as_str()) != agent) {
        parts.extensions.entry("agent_id".to_owned()).or_insert(raw(&other));
    }
    parts.finish()
}

/// Parses an object. Without an object, an empty string is stored; everything else is valid JSON.
fn parse(object: &str) -> Members {
    serde_json::from_str(object).unwrap_or_default()
}

fn raw<T: Serialize>(value: &T) -> Box<RawValue> {
    to_raw_value(value).expect("texts and valid values are valid JSON")
}
