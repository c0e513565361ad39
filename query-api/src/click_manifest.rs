//! Creates click manifests from a session's events. Pure.
//!
//! Shows only the members listed in `event_data::manifest_members`, and no value that contains the session id. Unknown members are never
//! shown (docs/api/click-tokens.md#members-of-a-manifest; CT6 to CT9 and CT12 of docs/threats.md).

mod id_encodings;

use crate::access::consent::{ClickedSession, Consents};
use crate::event_data::manifest_members::{Kind, Location, MAX_COUNT, kind_if_visible};
use crate::reads::{SessionEvent, SessionEvents};
use chrono::DateTime;
use id_encodings::IdEncodings;
use schemas::click_tokens::{ClickManifest, ManifestEvent};
use schemas::session::PrivacyLevel;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashSet};

/// Event types in a manifest.
const GROUNDED: &str = "content_grounded";
const CITED: &str = "content_cited";
const PRESENTED: &str = "content_presented";

/// Returns a session's privacy level: its own, otherwise the strictest level of its turns, otherwise `minimal`. Turns count only if all of
/// them were read.
pub(crate) fn level_of(declared: Option<PrivacyLevel>, read: &SessionEvents) -> PrivacyLevel {
    let of_turns = || read.events.iter().filter(|event| event.event_type.starts_with("turn_")).filter_map(turn_level).min();
    declared.or_else(|| of_turns().filter(|_| read.is_whole)).unwrap_or(PrivacyLevel::Minimal)
}

/// Returns a turn's level. A missing or unknown level counts as `minimal`.
fn turn_level(event: &SessionEvent) -> Option<PrivacyLevel> {
    #[derive(Deserialize)]
    struct Extra {
        turn: Option<Map<String, Value>>,
    }
    let turn = serde_json::from_str::<Extra>(&event.extra).ok()?.turn?;
    let level = turn.get("privacy_level").and_then(Value::as_str).and_then(PrivacyLevel::parse);
    Some(level.unwrap_or(PrivacyLevel::Minimal))
}

/// Returns the hosts that require their owners' consent.
pub(crate) fn sites(events: &[SessionEvent]) -> BTreeSet<&str> {
    events.iter().filter(|event| is_disclosable(event)).map(|event| event.site.as_str()).collect()
}

fn is_disclosable(event: &SessionEvent) -> bool {
    matches!(event.event_type.as_str(), GROUNDED | CITED | PRESENTED) && !event.content_url.is_empty()
}

pub(crate) fn manifest(clicked: &ClickedSession, read: &SessionEvents, consents: &Consents) -> ClickManifest {
    let level = level_of(clicked.level, read);
    let spellings = IdEncodings::for_session(clicked.scope.session());
    let mut told = HashSet::new();
    let shown = read.events.iter().filter(|event| is_disclosable(event) && consents.cover(&event.site, event.at_ms));
    // An id reported for two hosts is one event.
    let events: Vec<ManifestEvent> =
        shown.filter(|event| told.insert(event.key)).filter_map(|event| manifest_event(event, level, &spellings)).collect();
    ClickManifest {
        started_at: clicked.started_at,
        click_content_url: Some(clicked.content_url.clone()).filter(|url| !spellings.are_in(url)),
        content_urls_grounded: urls(&events, GROUNDED),
        content_urls_cited: urls(&events, CITED),
        content_urls_presented: urls(&events, PRESENTED),
        events,
    }
}

/// Returns each URL once, in the order of the events.
fn urls(events: &[ManifestEvent], event_type: &str) -> Vec<String> {
    let mut told = HashSet::new();
    let of_type = events.iter().filter(|event| event.event_type == event_type);
    of_type.filter(|event| told.insert(&event.content_url)).map(|event| event.content_url.clone()).collect()
}

fn manifest_event(event: &SessionEvent, level: PrivacyLevel, spellings: &IdEncodings) -> Option<ManifestEvent> {
    // An event that can't show its URL is omitted.
    if spellings.are_in(&event.content_url) {
        return None;
    }
    let reference = |name: &str, value: &String| {
        kind_if_visible(name, Location::Event, level)?;
        Some(value.clone()).filter(|value| !value.is_empty() && !spellings.are_in(value))
    };
    let members: Map<String, Value> = serde_json::from_str(&event.data).unwrap_or_default();
    let is_told =
        |name: &String, value: &Value| kind_if_visible(name, Location::Data, level).is_some_and(|kind| fits(value, kind));
    Some(ManifestEvent {
        event_type: event.event_type.clone(),
        timestamp: DateTime::from_timestamp_millis(event.at_ms)?,
        content_url: event.content_url.clone(),
        turn_id: reference("turn_id", &event.turn_id),
        output_id: reference("output_id", &event.output_id),
        data: members.into_iter().filter(|(name, value)| is_told(name, value)).collect(),
    })
}

/// Checks the value too, because a reporter can send anything under a known name, such as prose instead of a keyword.
fn fits(value: &Value, kind: Kind) -> bool {
    match (kind, value) {
        (Kind::Flag, Value::Bool(_)) | (Kind::Reference, Value::String(_)) => true,
        (Kind::Count, Value::Number(number)) => number.as_u64().is_some_and(|count| count <= MAX_COUNT),
        (Kind::Word(words), Value::String(word)) => words.contains(&word.as_str()),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
