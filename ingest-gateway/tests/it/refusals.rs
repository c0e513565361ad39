//! What is refused, with which status, code and fault; and that refusing leaves nothing behind.

use crate::harness::{Gateway, answer, retrieval, with};
use schemas::identity::OrgType;
use serde_json::{Value, json};

const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

#[tokio::test]
async fn what_is_not_a_json_object_is_400() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
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
        r#"{"events":[{"id":"\u0000"}]}"#,
        r#"{"events":[{"data":{"x":"\ud800"}}]}"#,
    ] {
        let refused = gateway.post_text(Some(&key), body.to_owned()).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (400, Some("invalid_body")), "{body:.60}");
        assert_eq!(refused.headers["content-type"], "application/problem+json");
        assert!(refused.body["detail"].as_str().is_some_and(|detail| detail.ends_with('.')), "detail is a sentence");
    }
    let invalid_utf8 = gateway.post_text(Some(&key), vec![b'{', b'"', 0xff, b'"', b':', b'1', b'}']).await;
    assert_eq!(invalid_utf8.status, 400);
    for levels in [31, 33, 127, 128, 100_000] {
        let nested = format!("{{\"events\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(gateway.post_text(Some(&key), nested).await.status, 422, "{levels} levels");
    }
    assert_eq!(gateway.record_count(), 0);
}

#[tokio::test]
async fn x14_only_json_is_a_body() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
    let body = json!({"events": [retrieval("https://a.test/")]}).to_string();
    let send = |content_type: Option<&'static str>, encoding: Option<&'static str>| {
        let request = service_kit::testing::client().post(format!("{}/events", gateway.server.url)).header("x-api-key", &key);
        let request = content_type.into_iter().fold(request, |request, value| request.header("content-type", value));
        let request = encoding.into_iter().fold(request, |request, value| request.header("content-encoding", value));
        answer(request.body(body.clone()))
    };
    for content_type in
        [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/json; charset=utf-16")]
    {
        assert_eq!(send(content_type, None).await.status, 415, "{content_type:?}");
    }
    assert_eq!(send(Some("application/json"), Some("unknown")).await.status, 415);
    assert_eq!(send(Some("application/json; charset=utf-8"), None).await.status, 201);
}

#[tokio::test]
async fn e16_the_size_limits_are_exact() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
    let body = json!({"events": [retrieval("https://a.test/")]}).to_string();
    let padded = |length: usize| format!("{body}{}", " ".repeat(length - body.len()));
    assert_eq!(gateway.post_text(Some(&key), padded(1024 * 1024)).await.status, 201);
    let refused = gateway.post_text(Some(&key), padded(1024 * 1024 + 1)).await;
    assert_eq!((refused.status, refused.body["code"].as_str()), (413, Some("too_large")));
    let events = |count: usize| json!({"events": vec![retrieval("https://a.test/"); count]});
    assert_eq!(gateway.post(&key, &events(1_000)).await.status, 201);
    assert_eq!(gateway.post(&key, &events(1_001)).await.faults(), [(None, "events".to_owned(), "too_many".to_owned())]);
}

/// One event that breaks one rule: the members to change, and the fault expected.
fn broken_rules() -> Vec<(Value, &'static str, &'static str)> {
    vec![
        (json!({"type": null}), "type", "required"),
        (json!({"type": "content_shown", "session_id": SESSION}), "type", "unknown_type"),
        (json!({"type": 7}), "type", "unknown_type"),
        (json!({"timestamp": null}), "timestamp", "required"),
        (json!({"timestamp": "2026-11-01T10:00:00"}), "timestamp", "bad_timestamp"),
        (json!({"timestamp": "2026-11-01_10:00:00Z"}), "timestamp", "bad_timestamp"),
        (json!({"timestamp": 1_790_000_000}), "timestamp", "bad_timestamp"),
        (json!({"timestamp": "1999-12-31T23:59:59Z"}), "timestamp", "too_early"),
        (json!({"timestamp": "9999-12-31T23:59:59Z"}), "timestamp", "in_the_future"),
        (json!({"source_role": "cdn"}), "source_role", "unknown_value"),
        (json!({"source_role": ["edge"]}), "source_role", "unknown_value"),
        (json!({"type": "content_cited", "session_id": SESSION}), "source_role", "not_allowed"),
        (json!({"source_role": null}), "session_id", "required"),
        (json!({"source_role": "agent"}), "session_id", "required"),
        (json!({"type": "content_cited", "source_role": "agent"}), "session_id", "required"),
        (json!({"session_id": "not-a-uuid"}), "session_id", "bad_uuid"),
        (json!({"content_url": null}), "content_url", "required"),
        (json!({"content_url": "javascript:alert(1)"}), "content_url", "bad_url"),
        (json!({"content_url": "/relative"}), "content_url", "bad_url"),
        (json!({"content_url": format!("https://a.test/{}", "a".repeat(8_192))}), "content_url", "bad_url"),
        (json!({"id": ""}), "id", "empty"),
        (json!({"id": "x".repeat(2_049)}), "id", "too_long"),
        (json!({"content_telemetry_id": 5}), "content_telemetry_id", "wrong_type"),
        (json!({"unknown": "a".repeat(64 * 1024)}), "event", "too_large"),
        (json!({"unknown": nested(33)}), "event", "too_deep"),
        (json!({"data": {"x": nested(32)}}), "data", "too_deep"),
        (json!({"data": []}), "data", "wrong_type"),
        (json!({"data": {"x": "a".repeat(64 * 1024)}}), "data", "too_large"),
        (json!({"type": "content_engaged", "source_role": null, "ctx_token": "ctx_unknown"}), "ctx_token", "unknown_token"),
    ]
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

#[tokio::test]
async fn each_broken_rule_is_named_with_its_place() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
    let good = retrieval("https://a.test/");
    for (change, field, code) in broken_rules() {
        let body = json!({"events": [good, with(good.clone(), change.clone())]});
        let refused = gateway.post(&key, &body).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (422, Some("invalid_event")), "{change:.80}");
        assert_eq!(refused.faults(), [(Some(1), field.to_owned(), code.to_owned())], "{change:.80}");
    }
    assert_eq!(gateway.record_count(), 0, "one bad event refuses its whole batch");
}

#[tokio::test]
async fn every_fault_of_a_batch_is_listed_at_once() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
    let bad = json!({"type": "content_cited", "timestamp": "yesterday", "source_role": "origin"});
    let refused = gateway.post(&key, &json!({"events": [bad, 7, retrieval("https://a.test/")]})).await;
    let found: Vec<_> =
        refused.faults().into_iter().map(|(index, field, code)| format!("{}:{field}:{code}", index.unwrap())).collect();
    assert_eq!(
        found,
        [
            "0:timestamp:bad_timestamp",
            "0:source_role:not_allowed",
            "0:content_url:required",
            "0:session_id:required",
            "1:event:wrong_type"
        ]
    );
}

#[tokio::test]
async fn e23_the_envelope_keeps_its_own_rules() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
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
        let refused = gateway.post(&key, &envelope).await;
        assert_eq!(refused.status, 422, "{envelope:.80}");
        assert_eq!(refused.faults().first().map(|fault| fault.1.as_str()), Some(field), "{envelope:.80}");
    }
    let event = |id: &str| with(retrieval("https://a.test/"), json!({"id": id}));
    for envelope in [
        json!({"document_type": "event", "events": [event("e5")]}),
        json!({"document_type": "event_batch", "event": event("e6")}),
        json!({"document_type": "event_batch", "events": null, "event": event("e7")}),
        json!({"event": event("e2")}),
        json!({"document_type": "event", "schema_version": "1.0", "event": event("e3")}),
        json!({"document_type": "event_batch", "schema_version": "0.1", "events": [event("e4")], "session_id": null, "x": 1}),
        json!({"events": [with(event("e1"), json!({"source_role": "agent"}))], "session_id": SESSION}),
    ] {
        let accepted = gateway.post(&key, &envelope).await;
        assert_eq!((accepted.status, accepted.body["events_created"].as_u64()), (201, Some(1)), "{envelope} {}", accepted.body);
    }
}

#[tokio::test]
async fn other_paths_and_methods_get_the_one_error_shape() {
    let gateway = Gateway::start().await;
    let send = |method: reqwest::Method, path: &str| {
        answer(service_kit::testing::client().request(method, format!("{}{path}", gateway.server.url)))
    };
    for (method, path, status, code) in [
        (reqwest::Method::GET, "/events", 405, "method_not_allowed"),
        (reqwest::Method::DELETE, "/events", 405, "method_not_allowed"),
        (reqwest::Method::POST, "/events/", 404, "not_found"),
        (reqwest::Method::POST, "//events", 404, "not_found"),
        (reqwest::Method::GET, "/%00", 404, "not_found"),
    ] {
        let refused = send(method.clone(), path).await;
        assert_eq!((refused.status, refused.body["code"].as_str()), (status, Some(code)), "{method} {path}");
        assert_eq!(refused.headers["x-request-id"].to_str().unwrap(), refused.body["request_id"].as_str().unwrap());
    }
}
