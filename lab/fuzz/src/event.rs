//! A body of `POST /events` and of `POST /sessions/bulk`, in loose and in strict mode.
//!
//! - A rejected body gets a 4xx status.
//! - Strict mode accepts only bodies that loose mode accepts, and stores the same number of events.
//! - A retry has the same keys.
//! - The worker decodes every event that the gateway accepts.
//! - Normalizing a stored event again has no effect, given the tokens that are stored as hashes.
//! - No data that must not be stored reaches the log.

use chrono::{DateTime, SecondsFormat, Utc};
use ingest_gateway::{Document, Limits, dry_run};
use schemas::event_key::EventKey;
use schemas::log::{LogEvent, LogRecord, MAX_RECORD_BYTES};
use schemas::secrets::{PlainClickToken, SecretHash};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fmt::Write;

/// A time after every timestamp in the seeds.
const NOW_MS: i64 = 1_800_000_000_000;
/// 2000-01-01, the earliest accepted timestamp.
const EARLIEST_AT_MS: i64 = 946_684_800_000;
/// Replaces a click token in stored text. The event's key depends on the token.
const WITHHELD: &str = "ctx_withheld";

type Members = HashMap<String, Box<RawValue>>;
type Tokens = HashMap<SecretHash, String>;

/// Checks the properties. Returns whether one of the two endpoints accepts the body.
pub fn run(body: &[u8]) -> bool {
    [Document::Events, Document::Session].map(|document| check(body, document)).contains(&true)
}

pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(NOW_MS).expect("the constant is a valid time")
}

fn check(body: &[u8], document: Document) -> bool {
    let read = |strict| dry_run(body, document, &Limits { strict, ..Limits::default() }, now());
    let (loose, strict) = (read(false), read(true));
    for refused in [&loose, &strict].into_iter().filter_map(|outcome| outcome.as_ref().err()) {
        let status = refused.code().status();
        assert!(matches!(status, 400 | 413 | 422), "rejected with {status}");
    }
    let Ok(record) = loose else {
        assert!(strict.is_err(), "strict mode accepts what loose mode rejects");
        return false;
    };
    if let Ok(strict) = strict {
        assert_eq!(strict.events.len(), record.events.len(), "strict mode stores a different number of events");
    }
    record.events.iter().for_each(check_event);
    check_worker(&record);
    // A session without an id gets a random one.
    if document == Document::Events || declared(body, "session_id").is_some() {
        let again = read(false).expect("the same body is accepted again");
        assert_eq!(texts(&again.events), texts(&record.events), "a retry stores different events");
    }
    check_normal(&record, declared(body, "privacy_level"), &tokens(body));
    true
}

pub(crate) fn texts(events: &[LogEvent]) -> Vec<String> {
    events.iter().map(|event| serde_json::to_string(event).expect("a log event can be serialized")).collect()
}

/// Omits the keys of events whose text no longer contains the token from which the key was derived.
fn normal_forms(events: &[LogEvent]) -> Vec<String> {
    let without_keys =
        |event: &LogEvent| texts(&[LogEvent { own_key: EventKey(0), correlation_key: None, ..event.clone() }]).concat();
    let form = |(event, text): (&LogEvent, String)| if text.contains(WITHHELD) { without_keys(event) } else { text };
    events.iter().zip(texts(events)).map(form).collect()
}

fn declared(body: &[u8], member: &str) -> Option<String> {
    text_of(&serde_json::from_slice(body).ok()?, member)
}

fn text_of(members: &Members, member: &str) -> Option<String> {
    serde_json::from_str(members.get(member)?.get()).ok()
}

/// Returns a body's click tokens, from the body itself and from each event.
fn tokens(body: &[u8]) -> Tokens {
    let Ok(around) = serde_json::from_slice::<Members>(body) else { return Tokens::new() };
    let listed: Vec<Box<RawValue>> =
        around.get("events").and_then(|events| serde_json::from_str(events.get()).ok()).unwrap_or_default();
    let events = listed.iter().chain(around.get("event"));
    let events: Vec<Members> = events.filter_map(|event| serde_json::from_str(event.get()).ok()).collect();
    let named = events.iter().chain([&around]).filter_map(|members| text_of(members, "ctx_token"));
    named.map(|token| (PlainClickToken::presented(&token).hash(), token)).collect()
}

pub(crate) fn check_event(event: &LogEvent) {
    let text = serde_json::to_string(event).expect("a log event can be serialized");
    assert!(!text.contains(r"\u0000") || text.contains(r"\\u0000"), "a NUL reaches the log: {text}");
    assert!((EARLIEST_AT_MS..=NOW_MS + 3_600_000).contains(&event.at_ms), "{} is not a valid event time", event.at_ms);
    for object in [&event.data, &event.extra].into_iter().flatten() {
        let value: Value = serde_json::from_str(object.get()).unwrap_or_default();
        assert!(object.get().starts_with('{'), "{object}");
        assert!(!names_address_hash(&value), "an address hash reaches the log: {object}");
    }
    if let Some(url) = &event.content_url {
        assert!(super::site::check_url(url), "{url} is stored, but is not a content URL");
    }
}

fn names_address_hash(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| name == "ip_hash" || names_address_hash(value)),
        Value::Array(values) => values.iter().any(names_address_hash),
        _ => false,
    }
}

pub(crate) fn check_worker(record: &LogRecord) {
    let bytes = serde_json::to_vec(record).expect("a record can be serialized");
    assert!(bytes.len() < MAX_RECORD_BYTES);
    let decoded = stream_workers::dry_run(&bytes);
    assert_eq!(decoded, Ok(record.events.len()), "the worker decodes a different number of events than were accepted");
}

/// Reports the stored events again, with the tokens in place of their hashes, and checks that the result is the same.
fn check_normal(record: &LogRecord, privacy_level: Option<String>, tokens: &Tokens) {
    let Some(agent) = record.events.first().map(|event| event.agent_id.clone()) else { return };
    let mut body = String::from("{");
    for (name, value) in [("agent_id", agent), ("privacy_level", privacy_level)] {
        let Some(value) = value else { continue };
        let _ = write!(body, "\"{name}\":{},", Value::from(value));
    }
    let events: Vec<String> = record.events.iter().map(|event| reported(event, tokens)).collect();
    let _ = write!(body, "\"events\":[{}]}}", events.join(","));
    let again = dry_run(body.as_bytes(), Document::Events, &Limits::default(), now());
    let again =
        again.unwrap_or_else(|refused| panic!("a stored event is rejected: {} {:?} {body}", refused.code().as_str(), refused));
    assert_eq!(normal_forms(&again.events), normal_forms(&record.events), "a stored event is not its own normal form");
}

/// Returns a stored event in the form of a report.
fn reported(event: &LogEvent, tokens: &Tokens) -> String {
    let token = event.kept_ctx_hash.map(|hash| tokens.get(&hash).expect("the body contains every stored token").clone());
    let at = DateTime::from_timestamp_millis(event.at_ms).expect("a stored time is valid");
    let text = |value: &Option<String>| value.clone().map(Value::from);
    let members = [
        ("type", Some(Value::from(event.event_type.clone()))),
        ("timestamp", Some(Value::from(at.to_rfc3339_opts(SecondsFormat::Millis, true)))),
        ("source_role", event.source_role.map(|role| Value::from(role.as_str()))),
        ("id", text(&event.id)),
        ("content_url", text(&event.content_url)),
        ("content_id", text(&event.content_id)),
        ("content_telemetry_id", text(&event.content_telemetry_id)),
        ("ctx_token", token.map(Value::from)),
        ("session_id", event.session_id.map(|session| Value::from(session.to_string()))),
        ("turn_id", text(&event.turn_id)),
        ("output_id", text(&event.output_id)),
    ];
    let mut written: Vec<String> =
        members.into_iter().filter_map(|(name, value)| Some(format!("\"{name}\":{}", value?))).collect();
    written.extend(event.data.as_ref().map(|data| format!("\"data\":{data}")));
    written.extend(event.extra.as_ref().map(|extra| extra.get()[1..extra.get().len() - 1].to_owned()));
    format!("{{{}}}", written.join(","))
}
