//! K6: request bodies as sent by real emitters, and what is stored.

use crate::harness::{SESSION, dry_post, event, try_body, try_event};
use schemas::event::SourceRole;
use schemas::log::LogEvent;
use serde_json::{Value, json};

const TELEMETRY_ID: &str = "0b1f9e6c-3d6a-4a52-9c4e-0f2a6a1d2e3f";
const AT: &str = "2026-11-01T10:00:00.123Z";

fn data(event: &LogEvent) -> &str {
    event.data.as_ref().map_or("", |data| data.get())
}

fn extra(event: &LogEvent) -> &str {
    event.extra.as_ref().map_or("", |extra| extra.get())
}

#[test]
fn accepts_edge_workers_old_names() {
    let body = format!(
        r#"{{"events":[{{"type":"content_retrieved","timestamp":"{AT}","content_url":"https://www.a.test/x?utm=1","source_role":"edge","oa_telemetry_id":"{}","data":{{"user_agent":"GPTBot/1.1","bot_category":"training","verified":false,"detection":"ua","asn":13335,"asn_org":null,"country":"DE","response_bytes":9007199254740993}}}}]}}"#,
        TELEMETRY_ID.to_uppercase()
    );
    let event = try_body("/events", body).unwrap().events.remove(0);
    assert_eq!((event.source_role, event.correlation_key.is_some()), (Some(SourceRole::Edge), true));
    assert_eq!(event.content_telemetry_id.as_deref(), Some(TELEMETRY_ID), "the old name is accepted, in any spelling");
    assert_eq!(
        data(&event),
        r#"{"user_agent":"GPTBot/1.1","purpose":"training","verified":false,"detection":"ua","asn":13335,"country":"DE","response_bytes":9007199254740993}"#
    );
    assert_eq!(extra(&event), "", "the old name is not stored as well");
}

#[test]
fn treats_null_as_absent() {
    let body = json!({
        "document_type": null, "schema_version": null, "session_id": SESSION, "agent_id": null, "ctx_token": null,
        "privacy_level": null, "event": null, "session": null, "manifest_ref": null,
        "events": [
            {"id": null, "type": "content_cited", "timestamp": AT, "source_role": null, "oa_telemetry_id": null,
                "content_telemetry_id": null, "content_url": "https://a.test/", "content_id": null, "session_id": null,
                "ctx_token": null, "turn_id": null, "output_id": null, "product_id": null, "turn": null,
                "data": {"citation_type": "paraphrase", "position": null, "excerpt_tokens": null}},
            {"type": "turn_completed", "timestamp": AT, "content_url": null, "data": null,
                "turn": {"privacy_level": null, "query_text": "planted", "query_tokens": 3, "response_tokens": null}},
        ],
    });
    let events = try_body("/events", body.to_string()).unwrap().events;
    assert_eq!((events[0].id.as_deref(), events[0].source_role), (None, None));
    assert_eq!(data(&events[0]), r#"{"citation_type":"paraphrase"}"#, "a null position is not an unknown position");
    assert_eq!((extra(&events[0]), data(&events[1])), ("", ""));
    assert_eq!(extra(&events[1]), r#"{"turn":{"query_tokens":3}}"#);
    assert_eq!(events[0].session_id.map(|id| id.to_string()).as_deref(), Some(SESSION));
    let key = |members: Value| try_event(&event("content_cited", members)).unwrap().own_key;
    let short = json!({"session_id": SESSION, "data": {"citation_type": "reference"}});
    let long = r#"{"id": null, "turn": null, "data": {"citation_type": "reference", "position": null}}"#;
    let text = event("content_cited", json!({"session_id": SESSION})).to_string();
    let filled = format!(r#"{{"events":[{},{}]}}"#, &text[..text.len() - 1], &long[1..]);
    assert_eq!(try_body("/events", filled).unwrap().events[0].own_key, key(short), "the same event");
}

#[test]
fn accepts_content_displayed_before_1_0() {
    let envelope = |version: Value| {
        let displayed = event("content_displayed", json!({"source_role": "agent", "data": {"display_type": "card", "n": 1}}));
        json!({"schema_version": version, "session_id": SESSION, "events": [displayed]}).to_string()
    };
    for version in [Value::Null, json!("0.1")] {
        let event = try_body("/events", envelope(version)).unwrap().events.remove(0);
        assert_eq!((event.event_type.as_str(), data(&event)), ("content_presented", r#"{"presentation_type":"card","n":1}"#));
    }
    let refused = dry_post("/events", envelope(json!("1.0"))).unwrap_err();
    let fault = &refused.listed()[0];
    assert_eq!((fault.field.as_str(), fault.code.as_str()), ("type", "unknown_type"));
    assert!(fault.detail.contains("content_presented"), "with a hint: {}", fault.detail);
}

#[test]
fn applies_the_stricter_level_of_envelope_and_turn() {
    for (around, own, expected) in [
        (json!("full"), json!("full"), (true, true)),
        (json!("full"), json!("intent"), (false, true)),
        (json!("intent"), json!("full"), (false, true)),
        (json!("minimal"), json!("full"), (false, false)),
        (Value::Null, Value::Null, (false, false)),
        (Value::Null, json!("minimal"), (false, false)),
        (Value::Null, json!("intent"), (false, true)),
        (Value::Null, json!("full"), (true, true)),
        (json!("summary"), Value::Null, (true, true)),
    ] {
        let turn = json!({"privacy_level": own, "query_text": "planted-text", "query_intent": "planted-intent"});
        let body =
            json!({"session_id": SESSION, "privacy_level": around, "events": [event("turn_completed", json!({"turn": turn}))]});
        let event = try_body("/events", body.to_string()).unwrap().events.remove(0);
        let kept = (extra(&event).contains("planted-text"), extra(&event).contains("planted-intent"));
        assert_eq!((kept, event.site.as_str()), (expected, ""), "{around} {own}; a turn has no site");
    }
    let (_, faults) = try_body("/events", json!({"privacy_level": "loud", "events": [{}]}).to_string()).unwrap_err();
    assert_eq!(faults, ["privacy_level:unknown_value"]);
}

#[test]
fn x9_rejects_repeated_known_members() {
    let tried = |members: &str| {
        let event = format!(r#"{{"type":"turn_completed","timestamp":"{AT}","session_id":"{SESSION}"{members}}}"#);
        try_body("/events", format!(r#"{{"events":[{event}]}}"#)).map(drop)
    };
    for (members, field) in [
        (r#","session_id":"67e55044-10b1-426f-9247-bb680e5fe0c8""#, "session_id"),
        (r#","id":"a","\u0069d":"b""#, "id"),
        (r#","turn":{"privacy_level":"minimal","privacy_level":"full","query_text":"q"}"#, "turn.privacy_level"),
        (r#","turn":{"privacy_level":"full","query_text":"q","query_text":"r"}"#, "turn.query_text"),
        (r#","data":{"citation_type":"reference","citation_type":"paraphrase"}"#, "data.citation_type"),
    ] {
        assert_eq!(tried(members), Err((400, vec![format!("0.{field}:repeated")])), "{members}");
    }
    assert_eq!(tried(r#","data":{"own":1,"own":2}"#), Ok(()));
}
