//! The threats to `POST /events` (E1 to E24) and to its parsing (X7 to X13), row by row.

use crate::credentials::GOLDEN;
use crate::harness::{Gateway, answer, retrieval, with};
use flate2::write::GzEncoder;
use schemas::event::{EventFamily, EventType, SourceRole};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use std::io::Write;
use uuid::Uuid;

const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const URL: &str = "https://a.test/";

async fn gateway_and_key() -> (Gateway, String) {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
    (gateway, key)
}

/// What one event alone gets: 201, or the faults as `field:code`.
async fn verdict(gateway: &Gateway, key: &str, event: &Value) -> Result<(), Vec<String>> {
    let answer = gateway.post(key, &json!({"events": [event]})).await;
    match answer.status {
        201 => Ok(()),
        422 => Err(answer.faults().into_iter().map(|(_, field, code)| format!("{field}:{code}")).collect()),
        other => panic!("{event} got {other}: {}", answer.body),
    }
}

fn event(event_type: &str) -> Value {
    json!({"type": event_type, "timestamp": "2026-11-01T10:00:00Z", "content_url": URL, "session_id": SESSION})
}

#[tokio::test]
async fn e3_each_type_is_taken_from_its_roles_only() {
    let (gateway, key) = gateway_and_key().await;
    for event_type in EventType::SPECIFIED {
        for role in SourceRole::ALL {
            let reported = with(event(event_type.as_str()), json!({"source_role": role.as_str()}));
            let may = match event_type {
                EventType::ContentRetrieved => true,
                EventType::CheckoutCompleted => matches!(role, SourceRole::Index | SourceRole::Agent),
                _ => role == SourceRole::Agent,
            };
            let expected = if may { Ok(()) } else { Err(vec!["source_role:not_allowed".to_owned()]) };
            assert_eq!(verdict(&gateway, &key, &reported).await, expected, "{event_type} by {}", role.as_str());
        }
    }
    let owner = gateway.seed().owner_of("a.test").await;
    let claimed = with(event("content_cited"), json!({"source_role": "origin"}));
    assert!(verdict(&gateway, &owner.key, &claimed).await.is_err(), "an owner's key changes nothing about roles");
}

#[tokio::test]
async fn e4_names_that_are_no_type_are_refused() {
    let (gateway, key) = gateway_and_key().await;
    for name in
        ["Content_Retrieved", "content_viewed", "turn_paused", "content_retrieved ", "page_view", "", ".", "a..b", "checkout_"]
    {
        assert_eq!(verdict(&gateway, &key, &event(name)).await, Err(vec!["type:unknown_type".to_owned()]), "{name}");
    }
    for name in ["com.example.shared", "checkout_started", "product_viewed"] {
        assert_eq!(verdict(&gateway, &key, &event(name)).await, Ok(()), "{name}");
    }
}

#[tokio::test]
async fn e9_an_instant_is_kept_to_the_millisecond_or_refused() {
    let (gateway, key) = gateway_and_key().await;
    let kept = [
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
    ];
    let events = kept.map(|(instant, _)| with(retrieval(URL), json!({"timestamp": instant})));
    let accepted = gateway.post(&key, &json!({"events": events})).await;
    assert_eq!(accepted.status, 201, "{}", accepted.body);
    let stored: Vec<i64> = gateway.records(1).await[0].events.iter().map(|event| event.at_ms).collect();
    assert_eq!(stored, kept.map(|(_, at_ms)| at_ms));
    for (instant, code) in [
        ("0000-01-01T00:00:00Z", "too_early"),
        ("1999-12-31T23:59:59.999Z", "too_early"),
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
        let refused = verdict(&gateway, &key, &with(retrieval(URL), json!({"timestamp": instant}))).await;
        assert_eq!(refused, Err(vec![format!("timestamp:{code}")]), "{instant}");
    }
}

#[tokio::test]
async fn e14_spellings_of_an_id_are_one_event() {
    let (gateway, key) = gateway_and_key().await;
    let id = Uuid::new_v4();
    let spellings =
        [id.to_string(), id.simple().to_string(), id.braced().to_string(), id.urn().to_string(), id.to_string().to_uppercase()];
    for spelling in &spellings {
        assert_eq!(verdict(&gateway, &key, &with(event("content_cited"), json!({"id": spelling}))).await, Ok(()));
    }
    let records = gateway.records(spellings.len()).await;
    assert!(records.iter().all(|record| record.events[0].own_key == records[0].events[0].own_key));
}

#[tokio::test]
async fn e15_one_bad_event_of_a_thousand_leaves_nothing() {
    let (gateway, key) = gateway_and_key().await;
    let mut events = vec![retrieval(URL); 1_000];
    events[617]["timestamp"] = json!("yesterday");
    let refused = gateway.post(&key, &json!({"events": events})).await;
    assert_eq!(refused.faults(), [(Some(617), "timestamp".to_owned(), "bad_timestamp".to_owned())]);
    let all_bad = gateway.post(&key, &json!({"events": vec![json!({}); 1_000]})).await;
    assert_eq!((all_bad.status, all_bad.faults().len()), (422, 100), "a list that stays readable");
    assert_eq!(gateway.record_count(), 0);
}

#[tokio::test]
async fn e18_the_largest_request_still_fits_the_log() {
    let (gateway, key) = gateway_and_key().await;
    // Escaped, `"` and `\` take the most room in a record that holds them in another string.
    let one = with(retrieval(URL), json!({"data": {"text": "\"\\".repeat(900)}, "own": "\u{1}".repeat(90)}));
    let body = json!({"events": vec![one; 970]}).to_string();
    assert!((4_000_000..4 * 1024 * 1024).contains(&body.len()), "{}", body.len());
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(body.as_bytes()).expect("memory takes it");
    let request = gateway.request(Some(&key)).header("content-encoding", "gzip").body(gzip.finish().expect("it ends"));
    let accepted = answer(request).await;
    assert_eq!((accepted.status, accepted.body["events_created"].as_u64()), (201, Some(970)), "{}", accepted.body);
}

#[tokio::test]
async fn e20_only_engagements_and_checkouts_are_bound_by_a_token() {
    let (gateway, key) = gateway_and_key().await;
    for event_type in EventType::SPECIFIED {
        let carrying = with(event(event_type.as_str()), json!({"ctx_token": "ctx_never_minted", "session_id": null}));
        let may = event_type == EventType::ContentEngaged || event_type.family() == EventFamily::Checkout;
        let fault = if may { "ctx_token:unknown_token" } else { "session_id:required" };
        assert_eq!(verdict(&gateway, &key, &carrying).await, Err(vec![fault.to_owned()]), "{event_type}");
    }
}

#[tokio::test]
async fn e21_a_session_may_lack_only_where_the_specification_says() {
    let (gateway, key) = gateway_and_key().await;
    for event_type in EventType::SPECIFIED {
        for role in
            [None].into_iter().chain(SourceRole::ALL.map(Some)).filter(|role| role.is_none_or(|role| event_type.allows(role)))
        {
            let members = json!({"session_id": null, "source_role": role.map(SourceRole::as_str)});
            let may = event_type == EventType::ContentRetrieved && role.is_some_and(|role| role != SourceRole::Agent);
            let expected = if may { Ok(()) } else { Err(vec!["session_id:required".to_owned()]) };
            let reported = with(event(event_type.as_str()), members);
            assert_eq!(verdict(&gateway, &key, &reported).await, expected, "{event_type} by {role:?}");
        }
    }
}

#[tokio::test]
async fn a_retrieval_by_an_agent_without_a_session_is_told_the_way_out() {
    let (gateway, key) = gateway_and_key().await;
    for role in [json!("agent"), Value::Null] {
        let refused = gateway.post(&key, &json!({"events": [with(retrieval(URL), json!({"source_role": role}))]})).await;
        assert_eq!(refused.status, 422);
        let detail = refused.body["errors"][0]["detail"].as_str().unwrap_or_default();
        for way in ["session_id", "POST /sessions/start", "source_role", "origin, edge or index"] {
            assert!(detail.contains(way), "{detail}");
        }
    }
}

#[tokio::test]
async fn e22_an_events_own_session_wins_over_the_envelopes() {
    let (gateway, key) = gateway_and_key().await;
    let own = Uuid::new_v4();
    let body = json!({"session_id": SESSION, "events": [
        with(event("content_cited"), json!({"session_id": own})), with(event("content_cited"), json!({"session_id": null}))]});
    assert_eq!(gateway.post(&key, &body).await.status, 201);
    let sessions: Vec<Option<String>> =
        gateway.records(1).await[0].events.iter().map(|event| event.session_id.map(|id| id.to_string())).collect();
    assert_eq!(sessions, [Some(own.to_string()), Some(SESSION.to_owned())]);
}

#[tokio::test]
async fn e24_x12_hostile_text_is_stored_as_it_is() {
    let (gateway, key) = gateway_and_key().await;
    let hostile = "<script>alert(1)</script>\r\nBcc: x\u{1b}[31m\u{202e}=cmd|' /C calc'!A0";
    let reported =
        with(event("content_cited"), json!({"content_id": hostile, "turn_id": hostile, "data": {"user_agent": hostile}}));
    let accepted = gateway.post(&key, &json!({"events": [reported]})).await;
    assert_eq!((accepted.status, accepted.headers["x-content-type-options"].as_bytes()), (201, &b"nosniff"[..]));
    assert_eq!(accepted.headers["content-type"], "application/json");
    let stored = gateway.records(1).await.remove(0).events.remove(0);
    assert_eq!((stored.content_id.as_deref(), stored.turn_id.as_deref()), (Some(hostile), Some(hostile)));
    let data: Value = serde_json::from_str(stored.data.expect("it has data").get()).expect("data is JSON");
    assert_eq!(data["user_agent"], hostile);
}

#[tokio::test]
async fn x7_data_nests_thirty_two_levels_and_no_more() {
    let (gateway, key) = gateway_and_key().await;
    for (levels, status) in [(31, 201), (32, 201), (33, 422), (100, 422), (125, 422), (200, 422)] {
        let data = format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let event = event("content_cited").to_string();
        let body = format!(r#"{{"events":[{},"data":{data}}}]}}"#, &event[..event.len() - 1]);
        let answer = gateway.post_text(Some(&key), body).await;
        assert_eq!(answer.status, status, "{levels} levels: {}", answer.body);
    }
}

#[tokio::test]
async fn x8_an_array_is_no_event() {
    let (gateway, key) = gateway_and_key().await;
    let positional = json!(["content_retrieved", "2026-11-01T10:00:00Z", "edge", URL]);
    for body in [json!({"events": [positional]}), json!({"event": positional}), json!({"events": [[retrieval(URL)]]})] {
        assert_eq!(gateway.post(&key, &body).await.faults()[0].2, "wrong_type", "{body}");
    }
    for body in [json!([retrieval(URL)]), json!(["event_batch", [retrieval(URL)]]), json!([]), json!(["x", "y"]), json!([[]])] {
        for (path, _) in GOLDEN {
            assert_eq!(post_to(&gateway, path, &key, body.to_string()).await, 400, "{path} {body}");
        }
    }
}

async fn post_to(gateway: &Gateway, path: &str, key: &str, body: String) -> u16 {
    let request = service_kit::testing::client().post(format!("{}{path}", gateway.server.url)).header("x-api-key", key);
    answer(request.header("content-type", "application/json").body(body)).await.status
}

#[tokio::test]
async fn x11_nul_and_lone_surrogates_are_refused_in_every_string() {
    let (gateway, key) = gateway_and_key().await;
    for bad in [r"x\u0000y", r"\ud800", r"\udc00\ud800"] {
        for place in ["id", "type", "timestamp", "content_url", "content_id", "turn_id", "output_id", "session_id", "own"] {
            let body = format!(r#"{{"events":[{{"type":"content_retrieved","{place}":"{bad}"}}]}}"#);
            assert_eq!(gateway.post_text(Some(&key), body).await.status, 400, "{place} {bad}");
        }
        for data in [format!(r#"{{"{bad}":1}}"#), format!(r#"{{"a":[{{"b":"{bad}"}}]}}"#)] {
            let body = format!(r#"{{"events":[{{"type":"content_retrieved","data":{data}}}]}}"#);
            assert_eq!(gateway.post_text(Some(&key), body).await.status, 400, "{data}");
        }
    }
    for (path, _) in GOLDEN {
        for body in [r#"{"agent_id":"a\u0000"}"#, r#"{"own":["\ud800"]}"#, "{\"a\":\"\u{0}\"}", "\u{feff}{}"] {
            assert_eq!(post_to(&gateway, path, &key, body.to_owned()).await, 400, "{path} {body:?}");
        }
    }
    let raw_nul = gateway.post_text(Some(&key), "{\"events\":[{\"id\":\"\0\"}]}").await;
    assert_eq!(raw_nul.status, 400, "a NUL that is not even escaped");
}

#[tokio::test]
async fn x13_lengths_are_limited_to_the_byte() {
    let (gateway, key) = gateway_and_key().await;
    for member in ["id", "content_id", "content_telemetry_id", "turn_id", "output_id"] {
        let of = |length: usize| with(event("content_cited"), json!({member: "é".repeat(length / 2)}));
        assert_eq!(verdict(&gateway, &key, &of(2_048)).await, Ok(()), "{member}");
        assert_eq!(verdict(&gateway, &key, &of(2_050)).await, Err(vec![format!("{member}:too_long")]), "{member}");
    }
    let url = |length: usize| with(retrieval(URL), json!({"content_url": format!("{URL}{}", "a".repeat(length - URL.len()))}));
    assert_eq!(verdict(&gateway, &key, &url(8_192)).await, Ok(()));
    assert_eq!(verdict(&gateway, &key, &url(8_193)).await, Err(vec!["content_url:bad_url".to_owned()]));
    let data = |length: usize| with(retrieval(URL), json!({"data": {"x": "a".repeat(length - r#"{"x":""}"#.len())}}));
    assert_eq!(verdict(&gateway, &key, &data(64 * 1024)).await, Ok(()));
    assert_eq!(verdict(&gateway, &key, &data(64 * 1024 + 1)).await, Err(vec!["data:too_large".to_owned()]));
}
