//! Threats to `POST /events` (E1 to E24) and its parsing (X7 to X13).

use crate::credentials::GOLDEN;
use crate::encodings::compress;
use crate::harness::{Gateway, SESSION, dry_post, event, retrieval, send_request, try_body, try_event, with};
use schemas::event::{EventFamily, EventType, SourceRole};
use serde_json::{Value, json};
use uuid::Uuid;

const URL: &str = "https://a.test/";

fn own(event_type: &str, members: Value) -> Value {
    with(event(event_type, json!({"session_id": SESSION})), members)
}

fn fault_of(event: &Value) -> Option<String> {
    let faults = try_event(event).err().unwrap_or_default();
    assert!(faults.len() <= 1, "{event}: {faults:?}");
    faults.first().map(|fault| fault.strip_prefix("0.").unwrap_or(fault).to_owned())
}

#[test]
fn e3_event_types_accept_only_their_roles() {
    for event_type in EventType::SPECIFIED {
        for role in SourceRole::ALL {
            let may = match event_type {
                EventType::ContentRetrieved => true,
                EventType::CheckoutCompleted => matches!(role, SourceRole::Index | SourceRole::Agent),
                _ => role == SourceRole::Agent,
            };
            let fault = fault_of(&own(event_type.as_str(), json!({"source_role": role.as_str()})));
            assert_eq!(fault.as_deref(), (!may).then_some("source_role:not_allowed"), "{event_type} by {}", role.as_str());
        }
    }
}

#[test]
fn e4_rejects_unknown_types() {
    for name in
        ["Content_Retrieved", "content_viewed", "turn_paused", "content_retrieved ", "page_view", "", ".", "a..b", "checkout_"]
    {
        assert_eq!(fault_of(&own(name, json!({}))).as_deref(), Some("type:unknown_type"), "{name}");
    }
    for name in ["com.example.shared", "checkout_started", "product_viewed"] {
        assert_eq!(fault_of(&own(name, json!({}))), None, "{name}");
    }
}

#[test]
fn e9_timestamps_are_exact_or_rejected() {
    for (instant, at_ms) in [
        ("2000-01-01T00:00:00Z", 946_684_800_000),
        ("2026-01-01T00:00:00.123456789123Z", 1_767_225_600_123),
        ("2026-01-01T14:00:00+14:00", 1_767_225_600_000),
        ("2025-12-31T12:00:00.5-12:00", 1_767_225_600_500),
        ("2026-01-01t00:00:00z", 1_767_225_600_000),
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("2026-01-01T00:00:00+0000", 1_767_225_600_000),
        ("2026-01-01 02:00:00.25+0200", 1_767_225_600_250),
        ("2025-12-31 18:30:00-05:30", 1_767_225_600_000),
        ("2026-01-01 00:00:00Z", 1_767_225_600_000),
        // Exactly an hour ahead of the dry run's clock.
        ("2026-11-01T11:46:40Z", 1_793_533_600_000),
    ] {
        let kept = try_event(&with(retrieval(URL), json!({"timestamp": instant})));
        assert_eq!(kept.map(|event| event.at_ms), Ok(at_ms), "{instant}");
    }
    for (instant, code) in [
        ("0000-01-01T00:00:00Z", "too_early"),
        ("1999-12-31T23:59:59.999Z", "too_early"),
        ("2026-11-01T11:46:40.001Z", "in_the_future"),
        ("2262-04-12T00:00:00Z", "in_the_future"),
        ("9999-12-31T23:59:59Z", "in_the_future"),
        ("+12345-01-01T00:00:00Z", "bad_timestamp"),
        ("2026-01-01T00:00:00", "bad_timestamp"),
        ("2026-01-01_00:00:00Z", "bad_timestamp"),
        ("2026-01-01  00:00:00Z", "bad_timestamp"),
        ("2026-01-01 00:00:00", "bad_timestamp"),
        ("2026-01-01T00:00:00+00", "bad_timestamp"),
        ("2026-01-01T00:00:00+2500", "bad_timestamp"),
        ("2026-01-0100", "bad_timestamp"),
        ("2026-01-01", "bad_timestamp"),
        ("2026-02-30T00:00:00Z", "bad_timestamp"),
        ("1767225600", "bad_timestamp"),
        ("", "bad_timestamp"),
    ] {
        let fault = fault_of(&with(retrieval(URL), json!({"timestamp": instant})));
        assert_eq!(fault, Some(format!("timestamp:{code}")), "{instant}");
    }
}

#[test]
fn e14_all_spellings_of_an_id_are_one_event() {
    let id = Uuid::new_v4();
    let spellings =
        [id.to_string(), id.simple().to_string(), id.braced().to_string(), id.urn().to_string(), id.to_string().to_uppercase()];
    let keys = spellings.map(|id| try_event(&own("content_cited", json!({"id": id}))).map(|event| event.own_key));
    assert!(keys[0].is_ok() && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn e15_one_invalid_event_rejects_the_whole_batch() {
    let (gateway, key) = Gateway::with_agent().await;
    let mut events = vec![retrieval(URL); 1_000];
    events[617]["timestamp"] = json!("yesterday");
    let refused = gateway.report(&key, &json!({"events": events})).await;
    assert_eq!(refused.faults(), ["617.timestamp:bad_timestamp"]);
    let all_bad = gateway.report(&key, &json!({"events": vec![json!({}); 1_000]})).await;
    assert_eq!((all_bad.status, all_bad.faults().len()), (422, 100), "the list is limited");
    assert_eq!(gateway.log.record_count(), 0);
}

#[tokio::test]
async fn e18_largest_request_fits_into_a_record() {
    let (gateway, key) = Gateway::with_agent().await;
    // Control characters, `"` and `\` need the most space when escaped again.
    let one = with(retrieval(URL), json!({"data": {"text": "\"\\".repeat(900)}, "own": "\u{1}".repeat(90)}));
    let body = json!({"events": vec![one; 970]}).to_string();
    assert!((4_000_000..4 * 1024 * 1024).contains(&body.len()), "{}", body.len());
    let request =
        gateway.post_request("/events", &key).header("content-encoding", "gzip").body(compress("gzip", body.as_bytes()));
    let accepted = send_request(request).await;
    assert_eq!((accepted.status, accepted.body["events_created"].as_u64()), (201, Some(970)), "{}", accepted.body);
}

#[test]
fn e20_tokens_bind_only_engagements_and_checkouts() {
    for event_type in EventType::SPECIFIED {
        let carrying = event(event_type.as_str(), json!({"ctx_token": "ctx_never_minted"}));
        let may = event_type == EventType::ContentEngaged || event_type.family() == EventFamily::Checkout;
        let fault = if may { "ctx_token:unknown_token" } else { "session_id:required" };
        assert_eq!(fault_of(&carrying).as_deref(), Some(fault), "{event_type}");
    }
}

#[test]
fn e21_only_observed_fetches_can_omit_the_session() {
    for event_type in EventType::SPECIFIED {
        let roles = [None].into_iter().chain(SourceRole::ALL.map(Some));
        for role in roles.filter(|role| role.is_none_or(|role| event_type.allows(role))) {
            let may = event_type == EventType::ContentRetrieved && role.is_some_and(|role| role != SourceRole::Agent);
            let reported = event(event_type.as_str(), json!({"source_role": role.map(SourceRole::as_str)}));
            assert_eq!(fault_of(&reported).as_deref(), (!may).then_some("session_id:required"), "{event_type} by {role:?}");
        }
    }
}

#[test]
fn missing_session_error_lists_the_alternatives() {
    for role in [json!("agent"), Value::Null] {
        let body = json!({"events": [with(retrieval(URL), json!({"source_role": role}))]}).to_string();
        let refused = dry_post("/events", body).unwrap_err();
        let detail = &refused.listed()[0].detail;
        for way in ["session_id", "POST /sessions/start", "source_role", "origin, edge or index"] {
            assert!(detail.contains(way), "{detail}");
        }
    }
}

#[test]
fn e22_event_session_overrides_the_envelopes() {
    let id = Uuid::new_v4();
    let events = [event("content_cited", json!({"session_id": id})), event("content_cited", json!({}))];
    let record = try_body("/events", json!({"session_id": SESSION, "events": events}).to_string()).unwrap();
    let sessions = record.events.iter().map(|event| event.session_id.map(|id| id.to_string()));
    assert_eq!(sessions.collect::<Vec<_>>(), [Some(id.to_string()), Some(SESSION.to_owned())]);
}

#[tokio::test]
async fn e24_x12_hostile_text_is_stored_unchanged() {
    let (gateway, key) = Gateway::with_agent().await;
    let hostile = "<script>alert(1)</script>\r\nBcc: x\u{1b}[31m\u{202e}=cmd|' /C calc'!A0";
    let reported = own("content_cited", json!({"content_id": hostile, "turn_id": hostile, "data": {"user_agent": hostile}}));
    let accepted = gateway.report(&key, &json!({"events": [reported]})).await;
    assert_eq!((accepted.status, accepted.headers["x-content-type-options"].as_bytes()), (201, &b"nosniff"[..]));
    assert_eq!(accepted.headers["content-type"], "application/json");
    let stored = gateway.log.records(1).await.remove(0).events.remove(0);
    assert_eq!((stored.content_id.as_deref(), stored.turn_id.as_deref()), (Some(hostile), Some(hostile)));
    let data: Value = serde_json::from_str(stored.data.expect("it has data").get()).expect("data is JSON");
    assert_eq!(data["user_agent"], hostile);
}

#[test]
fn x8_rejects_arrays_as_events() {
    let positional = json!(["content_retrieved", "2026-11-01T10:00:00Z", "edge", URL]);
    for body in [json!({"events": [positional]}), json!({"event": positional}), json!({"events": [[retrieval(URL)]]})] {
        let refused = try_body("/events", body.to_string()).map(drop);
        assert_eq!(refused, Err((422, vec!["0.event:wrong_type".to_owned()])), "{body}");
    }
    for body in [json!([retrieval(URL)]), json!(["event_batch", [retrieval(URL)]]), json!([]), json!(["x", "y"]), json!([[]])] {
        for (path, _) in GOLDEN {
            assert_eq!(try_body(path, body.to_string()).map(drop), Err((400, Vec::new())), "{path} {body}");
        }
    }
}

#[test]
fn x11_rejects_nul_and_lone_surrogates() {
    let is_refused =
        |path: &str, body: &str| assert_eq!(try_body(path, body).map(drop), Err((400, Vec::new())), "{path} {body:?}");
    for bad in [r"x\u0000y", r"\ud800", r"\udc00\ud800"] {
        for place in ["id", "type", "timestamp", "content_url", "content_id", "turn_id", "output_id", "session_id", "own"] {
            is_refused("/events", &format!(r#"{{"events":[{{"type":"content_retrieved","{place}":"{bad}"}}]}}"#));
        }
        for data in [format!(r#"{{"{bad}":1}}"#), format!(r#"{{"a":[{{"b":"{bad}"}}]}}"#)] {
            is_refused("/events", &format!(r#"{{"events":[{{"type":"content_retrieved","data":{data}}}]}}"#));
        }
    }
    for (path, _) in GOLDEN {
        for body in [r#"{"agent_id":"a\u0000"}"#, r#"{"own":["\ud800"]}"#, "{\"a\":\"\u{0}\"}", "\u{feff}{}"] {
            is_refused(path, body);
        }
    }
    is_refused("/events", "{\"events\":[{\"id\":\"\0\"}]}");
}
