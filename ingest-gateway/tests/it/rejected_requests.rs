//! Rejected requests: status, code and fault. Nothing is stored.

use crate::harness::{Gateway, SESSION, retrieval, send_request, try_body, with};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn rejects_bodies_that_are_not_objects() {
    let refused = |body: &[u8]| try_body("/events", body).map(drop);
    for body in [
        "",
        "{",
        "[]",
        "null",
        "7",
        "\"x\"",
        "[[\"events\"]]",
        "{\"events\":[]} trailing",
        "\u{feff}{}",
        r#"{"session_id":"a","session_id":"b","events":[]}"#,
    ] {
        assert_eq!(refused(body.as_bytes()), Err((400, Vec::new())), "{body}");
    }
    assert_eq!(refused(&[b'{', b'"', 0xff, b'"', b':', b'1', b'}']), Err((400, Vec::new())));
    for levels in [31, 33, 127, 128, 100_000] {
        let nested = format!("{{\"events\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(refused(nested.as_bytes()).map_err(|(status, _)| status), Err(422), "{levels} levels");
    }
    let (gateway, key) = Gateway::with_agent().await;
    let refused = gateway.send(Method::POST, &key, "/events", "null").await;
    assert_eq!((refused.status, refused.body["code"].as_str()), (400, Some("invalid_body")));
    assert_eq!(refused.headers["content-type"], "application/problem+json");
    assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.ends_with('.')), "the detail is a sentence");
}

#[tokio::test]
async fn x14_accepts_only_json() {
    let (gateway, key) = Gateway::with_agent().await;
    let body = json!({"events": [retrieval("https://a.test/")]}).to_string();
    let send = |content_type: Option<&'static str>, encoding: Option<&'static str>| {
        let request = service_kit::testing::client().post(format!("{}/events", gateway.server.url)).header("x-api-key", &key);
        let request = content_type.into_iter().fold(request, |request, value| request.header("content-type", value));
        let request = encoding.into_iter().fold(request, |request, value| request.header("content-encoding", value));
        send_request(request.body(body.clone()))
    };
    for content_type in
        [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/json; charset=utf-16")]
    {
        assert_eq!(send(content_type, None).await.status, 415, "{content_type:?}");
    }
    assert_eq!(send(Some("application/json"), Some("unknown")).await.status, 415);
    assert_eq!(send(Some("application/json; charset=utf-8"), None).await.status, 201);
}

/// Returns events that break one rule each: the members to change, and the expected fault.
fn broken_rules() -> Vec<(Value, &'static str)> {
    vec![
        (json!({"type": null}), "type:required"),
        (json!({"type": "content_shown", "session_id": SESSION}), "type:unknown_type"),
        (json!({"type": 7}), "type:unknown_type"),
        (json!({"timestamp": null}), "timestamp:required"),
        (json!({"timestamp": "2026-11-01T10:00:00"}), "timestamp:bad_timestamp"),
        (json!({"timestamp": "2026-11-01_10:00:00Z"}), "timestamp:bad_timestamp"),
        (json!({"timestamp": 1_790_000_000}), "timestamp:bad_timestamp"),
        (json!({"timestamp": "1999-12-31T23:59:59Z"}), "timestamp:too_early"),
        (json!({"timestamp": "9999-12-31T23:59:59Z"}), "timestamp:in_the_future"),
        (json!({"source_role": "cdn"}), "source_role:unknown_value"),
        (json!({"source_role": ["edge"]}), "source_role:unknown_value"),
        (json!({"type": "content_cited", "session_id": SESSION}), "source_role:not_allowed"),
        (json!({"source_role": null}), "session_id:required"),
        (json!({"source_role": "agent"}), "session_id:required"),
        (json!({"type": "content_cited", "source_role": "agent"}), "session_id:required"),
        (json!({"session_id": "not-a-uuid"}), "session_id:bad_uuid"),
        (json!({"content_url": null}), "content_url:required"),
        (json!({"content_url": "javascript:alert(1)"}), "content_url:bad_url"),
        (json!({"content_url": "/relative"}), "content_url:bad_url"),
        (json!({"id": ""}), "id:empty"),
        (json!({"content_telemetry_id": 5}), "content_telemetry_id:wrong_type"),
        (json!({"data": []}), "data:wrong_type"),
        (json!({"type": "content_engaged", "source_role": null, "ctx_token": "ctx_unknown"}), "ctx_token:unknown_token"),
    ]
}

#[test]
fn reports_each_broken_rule_with_its_path() {
    let good = retrieval("https://a.test/");
    for (change, fault) in broken_rules() {
        let body = json!({"events": [good, with(good.clone(), change.clone())]});
        assert_eq!(try_body("/events", body.to_string()).map(drop), Err((422, vec![format!("1.{fault}")])), "{change}");
    }
}

#[tokio::test]
async fn lists_every_fault_of_a_batch() {
    let (gateway, key) = Gateway::with_agent().await;
    let bad = json!({"type": "content_cited", "timestamp": "yesterday", "source_role": "origin"});
    let refused = gateway.report(&key, &json!({"events": [bad, 7, retrieval("https://a.test/")]})).await;
    assert_eq!((refused.status, refused.body["code"].as_str()), (422, Some("invalid_event")));
    assert_eq!(
        refused.faults(),
        [
            "0.timestamp:bad_timestamp",
            "0.source_role:not_allowed",
            "0.content_url:required",
            "0.session_id:required",
            "1.event:wrong_type"
        ]
    );
    assert_eq!(gateway.log.record_count(), 0);
}

#[test]
fn e23_checks_the_envelope() {
    let event = retrieval("https://a.test/");
    for (envelope, field) in [
        (json!({"events": []}), "events"),
        (json!({}), "events"),
        (json!({"events": {}}), "events"),
        (json!({"events": [event], "event": event}), "event"),
        (json!({"document_type": "event", "events": [event], "event": event}), "event"),
        (json!({"document_type": "event_batch", "events": [], "event": event}), "event"),
        (json!({"document_type": "session", "events": [event]}), "document_type"),
        (json!({"schema_version": "2.0", "events": [event]}), "schema_version"),
        (json!({"schema_version": "0.2", "events": [event]}), "schema_version"),
        (json!({"schema_version": 1, "events": [event]}), "schema_version"),
        (json!({"session": {}, "events": [event]}), "session"),
        (json!({"session_id": "x", "events": [event]}), "session_id"),
    ] {
        let (status, faults) = try_body("/events", envelope.to_string()).expect_err("the envelope is invalid");
        assert_eq!((status, faults[0].split(':').next()), (422, Some(field)), "{envelope}");
    }
    for envelope in [
        json!({"document_type": "event", "events": [event]}),
        json!({"document_type": "event_batch", "event": event}),
        json!({"document_type": "event_batch", "events": null, "event": event}),
        json!({"event": event}),
        json!({"document_type": "event", "schema_version": "1.0", "event": event}),
        json!({"document_type": "event_batch", "schema_version": "0.1", "events": [event], "session_id": null, "x": 1}),
        json!({"events": [with(event.clone(), json!({"source_role": "agent"}))], "session_id": SESSION}),
    ] {
        let taken = try_body("/events", envelope.to_string()).map(|record| record.events.len());
        assert_eq!(taken, Ok(1), "{envelope}");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_get_problem_details() {
    let gateway = Gateway::start().await;
    let send = |method: Method, path: &str| {
        send_request(service_kit::testing::client().request(method, format!("{}{path}", gateway.server.url)))
    };
    for (method, path, status, code) in [
        (Method::GET, "/events", 405, "method_not_allowed"),
        (Method::DELETE, "/events", 405, "method_not_allowed"),
        (Method::POST, "/events/", 404, "not_found"),
        (Method::POST, "//events", 404, "not_found"),
        (Method::GET, "/%00", 404, "not_found"),
    ] {
        let refused = send(method.clone(), path).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (status, Some(code)), "{method} {path}");
        assert_eq!(refused.headers["x-request-id"].to_str().unwrap(), refused.body["request_id"].as_str().unwrap());
    }
}
