//! Tests the public rules. Each test breaks one rule in an otherwise valid event.

use super::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

const ID: &str = "770e8400-e29b-41d4-a716-446655440601";

/// Returns a valid event of this type with all of the type's members.
fn good(event_type: &str) -> Value {
    let hash = format!("sha256:{}", "a1".repeat(32));
    let (members, data) = match event_type {
        "content_retrieved" => (
            json!({"source_role": "edge", "content_telemetry_id": ID, "license_ref": null}),
            json!({"user_agent": "x", "verified": true, "response_status": 200, "response_bytes": 0, "asn": 13335, "country": "DE"}),
        ),
        "content_grounded" => (
            json!({}),
            json!({"scope": "turn", "cached": false, "provenance": "agent_fetched", "chars_ingested": 10.0, "content_hash": hash,
                "content_last_modified": "2026-01-01T00:00:00Z", "content_fingerprint": {"scheme": "s", "detected": false}}),
        ),
        "content_cited" => (
            json!({"id": ID, "output_id": "o", "turn_id": null}),
            json!({"citation_type": "paraphrase", "position": "primary", "excerpt_chars": 1, "excerpt_hash": hash, "url_verified": true}),
        ),
        "content_presented" => (
            json!({"id": ID, "output_id": "o", "citation_id": ID}),
            json!({"presentation_kind": "content", "presentation_type": "hologram"}),
        ),
        "content_engaged" => {
            (json!({"presentation_id": ID, "ctx_token": "ct_0123456789abcdef"}), json!({"engagement_type": "wink"}))
        }
        "turn_completed" => (
            json!({"turn": {"privacy_level": "full", "query_text": "q", "topics": ["t"], "query_tokens": 1, "model_id": null,
                "content_urls_cited": ["https://a.test/"], "ad_rendered": false, "own": 1}}),
            json!({}),
        ),
        _ => (json!({"ctx_token": "ctx_0123456789abcdef"}), json!({"anything": null})),
    };
    let mut event =
        json!({"type": event_type, "timestamp": "2026-08-20T10:00:00Z", "content_url": "https://a.test/", "data": data});
    event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    event
}

/// Returns one event's faults as `field:code`.
fn faults_of(event: &Value, around: DocumentKind, level: Option<PrivacyLevel>) -> Vec<String> {
    let raw = RawValue::from_string(event.to_string()).unwrap();
    let mut faults = Faults::default();
    check_event(&RawObject::parse(raw.get()).unwrap(), around, level, &mut faults);
    faults.names()
}

/// Returns `event` with the member at a dotted path set, or removed without a `value`.
fn changed(mut event: Value, place: &str, value: Option<&Value>) -> Value {
    let mut at = &mut event;
    let (path, last) = place.rsplit_once('.').map_or((None, place), |(path, last)| (Some(path), last));
    for part in path.iter().flat_map(|path| path.split('.')) {
        at = &mut at[part];
    }
    let object = at.as_object_mut().unwrap();
    match value {
        Some(value) => object.insert(last.to_owned(), value.clone()),
        None => object.remove(last),
    };
    event
}

const ENVELOPE: DocumentKind = DocumentKind::Envelope { has_token: false };

#[test]
fn valid_events_have_no_faults() {
    for event_type in [
        "content_retrieved",
        "content_grounded",
        "content_cited",
        "content_presented",
        "content_engaged",
        "turn_started",
        "turn_completed",
        "checkout_completed",
    ] {
        let event = if event_type == "turn_started" {
            changed(good("turn_completed"), "type", Some(&json!(event_type)))
        } else {
            good(event_type)
        };
        assert_eq!(faults_of(&event, ENVELOPE, None), Vec::<String>::new(), "{event_type}");
        assert_eq!(faults_of(&changed(event, "own", Some(&json!({"x": 1}))), ENVELOPE, None), Vec::<String>::new());
    }
}

#[test]
fn requires_members_to_be_present_and_not_null() {
    for (event_type, place) in [
        ("content_retrieved", "source_role"),
        ("content_grounded", "data.scope"),
        ("content_grounded", "data.content_fingerprint.scheme"),
        ("content_grounded", "data.content_fingerprint.detected"),
        ("content_cited", "id"),
        ("content_cited", "output_id"),
        ("content_cited", "data.citation_type"),
        ("content_presented", "id"),
        ("content_presented", "output_id"),
        ("content_presented", "data.presentation_kind"),
        ("content_presented", "data.presentation_type"),
        ("content_engaged", "presentation_id"),
        ("turn_completed", "turn"),
        ("turn_completed", "turn.privacy_level"),
    ] {
        let absent = faults_of(&changed(good(event_type), place, None), ENVELOPE, None);
        assert!(absent.contains(&format!("{place}:required")), "{event_type} without {place}: {absent:?}");
        let null = faults_of(&changed(good(event_type), place, Some(&Value::Null)), ENVELOPE, None);
        assert!(null.iter().any(|fault| fault.starts_with(&format!("{place}:"))), "{event_type} with null {place}: {null:?}");
    }
    for event_type in ["content_grounded", "content_cited", "content_presented"] {
        assert_eq!(faults_of(&changed(good(event_type), "data", None), ENVELOPE, None), ["data:required"]);
    }
}

#[test]
fn invalid_values_are_reported_with_their_path() {
    for (event_type, place, value, code) in [
        ("content_cited", "id", json!("cite-1"), "bad_uuid"),
        ("content_cited", "id", json!("770e8400e29b41d4a716446655440601"), "bad_uuid"),
        ("content_cited", "output_id", json!(""), "empty"),
        ("content_cited", "output_element_id", json!(7), "wrong_type"),
        ("content_cited", "data.citation_type", json!("summary"), "unknown_value"),
        ("content_cited", "data.position", json!("top"), "unknown_value"),
        ("content_cited", "data.position", Value::Null, "wrong_type"),
        ("content_cited", "data.excerpt_chars", json!(-1), "out_of_range"),
        ("content_cited", "data.excerpt_chars", json!(1.5), "wrong_type"),
        ("content_cited", "data.excerpt_chars", json!("1"), "wrong_type"),
        ("content_cited", "data.excerpt_hash", json!("sha256:A1"), "bad_hash"),
        ("content_cited", "data.url_verified", json!("true"), "wrong_type"),
        ("content_presented", "citation_id", json!("c"), "bad_uuid"),
        ("content_presented", "data.presentation_kind", json!("card"), "unknown_value"),
        ("content_presented", "data.presentation_type", json!(1), "wrong_type"),
        ("content_engaged", "presentation_id", json!("p"), "bad_uuid"),
        ("content_engaged", "ctx_token", json!("token123"), "bad_token"),
        ("content_engaged", "ctx_token", json!("ct_short"), "bad_token"),
        ("content_engaged", "data.engagement_type", json!([]), "wrong_type"),
        ("content_grounded", "data.scope", json!("world"), "unknown_value"),
        ("content_grounded", "data.provenance", json!("guessed"), "unknown_value"),
        ("content_grounded", "data.content_last_modified", json!("2026-01-01"), "bad_timestamp"),
        ("content_grounded", "data.content_fingerprint", json!([]), "wrong_type"),
        ("content_grounded", "data.content_fingerprint.detected", json!(1), "wrong_type"),
        ("content_retrieved", "content_telemetry_id", json!("t"), "bad_uuid"),
        ("content_retrieved", "license_ref", json!(1), "wrong_type"),
        ("content_retrieved", "data.response_status", json!(99), "out_of_range"),
        ("content_retrieved", "data.country", json!("de"), "unknown_value"),
        ("content_retrieved", "data", Value::Null, "wrong_type"),
        ("turn_completed", "turn.privacy_level", json!("secret"), "unknown_value"),
        ("turn_completed", "turn.topics", json!(["a", 1]), "wrong_type"),
        ("turn_completed", "turn.topics", Value::Null, "wrong_type"),
        ("turn_completed", "turn.content_urls_cited", json!(["/a"]), "bad_url"),
        ("turn_completed", "turn.query_tokens", json!(-1), "out_of_range"),
        ("turn_completed", "turn.ad_rendered", json!("no"), "wrong_type"),
    ] {
        let found = faults_of(&changed(good(event_type), place, Some(&value)), ENVELOPE, None);
        assert!(found.contains(&format!("{place}:{code}")), "{event_type} {place} = {value}: {found:?}");
    }
}

#[test]
fn rejects_members_on_the_wrong_type() {
    for (event_type, place, value, code) in [
        ("content_grounded", "ctx_token", json!("ct_0123456789abcdef"), "not_allowed"),
        ("content_cited", "citation_id", json!(ID), "not_allowed"),
        ("content_retrieved", "data.ip_hash", json!("x"), "withdrawn"),
        ("content_retrieved", "ip_hash", json!("x"), "withdrawn"),
    ] {
        assert_eq!(faults_of(&changed(good(event_type), place, Some(&value)), ENVELOPE, None), [format!("{place}:{code}")]);
    }
    for event_type in ["checkout_started", "com.example.shared"] {
        assert_eq!(faults_of(&changed(good("x"), "type", Some(&json!(event_type))), ENVELOPE, None)[0], "type:unknown_type");
    }
}

#[test]
fn only_an_envelope_token_replaces_the_presentation() {
    let unbound = changed(good("content_engaged"), "presentation_id", None);
    assert_eq!(faults_of(&unbound, DocumentKind::Envelope { has_token: true }, None), Vec::<String>::new());
    assert_eq!(faults_of(&unbound, DocumentKind::Session, None), ["presentation_id:required"]);
    assert_eq!(faults_of(&unbound, ENVELOPE, None), ["presentation_id:required"], "its own token does not replace it");
}

#[test]
fn rejects_members_above_the_privacy_level() {
    let at = |level: &str| changed(good("turn_completed"), "turn.privacy_level", Some(&json!(level)));
    let violations = |level: &str, around: Option<PrivacyLevel>| faults_of(&at(level), ENVELOPE, around);
    let above_intent = ["turn.query_text:privacy_violation"];
    let above_minimal =
        ["turn.query_text:privacy_violation", "turn.topics:privacy_violation", "turn.ad_rendered:privacy_violation"];
    assert_eq!(violations("full", None), Vec::<String>::new());
    assert_eq!(violations("summary", None), Vec::<String>::new());
    assert_eq!(violations("intent", None), above_intent);
    assert_eq!(violations("minimal", None), above_minimal);
    assert_eq!(violations("full", Some(PrivacyLevel::Intent)), above_intent, "the stricter level applies");
}

fn document_faults(document: &Value, check: impl Fn(&RawObject<'_>, &[&RawValue], &mut Faults)) -> Vec<String> {
    let text = document.to_string();
    let object = RawObject::parse(&text).unwrap();
    let events = object.get("events").and_then(crate::request::raw_json::as_array).unwrap_or_default();
    let mut faults = Faults::default();
    check(&object, &events, &mut faults);
    faults.names()
}

#[test]
fn reports_invalid_envelopes() {
    let (retrieved, engaged) = (good("content_retrieved"), good("content_engaged"));
    let envelope = json!({"document_type": "event_batch", "schema_version": "1.0", "events": [retrieved]});
    let of = |place: &str, value: Value| document_faults(&changed(envelope.clone(), place, Some(&value)), check_envelope);
    assert_eq!(of("own", json!(1)), Vec::<String>::new());
    assert_eq!(of("document_type", Value::Null), ["document_type:wrong_type"]);
    assert_eq!(of("schema_version", json!("0.1")), ["schema_version:unknown_value"]);
    assert_eq!(of("session_id", json!("session-42")), ["session_id:bad_uuid"]);
    assert_eq!(of("parent_session_id", json!("x")), ["parent_session_id:bad_uuid"]);
    assert_eq!(of("started_at", json!("now")), ["started_at:bad_timestamp"]);
    assert_eq!(of("agent_id", json!(1)), ["agent_id:wrong_type"]);
    assert_eq!(of("manifest_ref", Value::Null), Vec::<String>::new());
    assert_eq!(of("ctx_token", json!("token123")), ["ctx_token:bad_token", "ctx_token:not_allowed"]);
    assert_eq!(of("events", json!([retrieved, good("content_grounded")])), ["session_id:required"]);
    let absent = document_faults(&json!({"events": [retrieved]}), check_envelope);
    assert_eq!(absent, ["document_type:required", "schema_version:required"]);

    let other = changed(engaged.clone(), "presentation_id", Some(&json!("880e8400-e29b-41d4-a716-446655440601")));
    assert_eq!(of("events", json!([engaged, engaged])), Vec::<String>::new(), "two clicks on one presentation");
    assert_eq!(of("events", json!([engaged, other])), ["1.ctx_token:shared"]);
    let cited = changed(good("content_cited"), "session_id", Some(&json!(ID)));
    let spelt = changed(cited.clone(), "id", Some(&json!(ID.to_uppercase())));
    assert_eq!(of("events", json!([cited, retrieved, spelt])), ["2.id:duplicate"]);
}

#[test]
fn reports_invalid_session_documents() {
    let session = json!({"schema_version": "1.0", "session_id": ID, "started_at": "2026-08-20T10:00:00Z", "events": []});
    let of = |place: &str, value: Option<Value>| document_faults(&changed(session.clone(), place, value.as_ref()), check_session);
    assert_eq!(of("document_type", Some(json!("session"))), Vec::<String>::new());
    assert_eq!(of("document_type", Some(json!("event_batch"))), ["document_type:unknown_value"]);
    assert_eq!(of("schema_version", None), ["schema_version:required"]);
    assert_eq!(of("schema_version", Some(json!("0.1"))), ["schema_version:unknown_value"]);
    assert_eq!(of("started_at", None), ["started_at:required"]);
    assert_eq!(of("session_id", None), ["session_id:required"]);
    assert_eq!(of("conformance_level", Some(json!("gold"))), ["conformance_level:unknown_value"]);
    assert_eq!(of("agent_id", Some(Value::Null)), Vec::<String>::new());
    let access = |identifiers: Value| Some(json!({"access_context": {"identifiers": identifiers}}));
    assert_eq!(of("data", access(json!([{"scheme": "ror", "value": "x"}]))), Vec::<String>::new());
    assert_eq!(of("data", access(json!([{"scheme": "ror"}]))), ["data.access_context.identifiers.value:required"]);
    assert_eq!(of("data", access(json!("ror"))), ["data.access_context.identifiers:wrong_type"]);
}
