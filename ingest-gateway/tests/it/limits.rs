//! Every limit that has a name, exact on every write route that has it: the largest that fits is taken, one more is refused.
//! Sizes of whole bodies are in `encodings`, for every route and encoding.

use crate::harness::{Gateway, answer, retrieval, with};
use ingest_gateway::Limits;
use schemas::identity::OrgType;
use serde_json::{Map, Value, json};
use uuid::Uuid;

const SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const URL: &str = "https://a.test/";

const START: &str = "/sessions/start";
const END: &str = "/sessions/end";
const BULK: &str = "/sessions/bulk";
const EVENTS: &str = "/events";
const TOKENS: &str = "/click-tokens";

/// What a limit counts, the most of it, and the fault of one more.
struct Row {
    path: &'static str,
    limit: &'static str,
    most: usize,
    /// A body with so much of it.
    body: Box<dyn Fn(usize) -> Value>,
    fault: &'static str,
}

/// A member of an event, on both routes that take events.
fn of_events(limit: &'static str, most: usize, fault: &'static str, members: fn(usize) -> Value) -> Vec<Row> {
    let event =
        move |n| with(json!({"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "content_url": URL}), members(n));
    let body = move |n| json!({"session_id": SESSION, "events": [event(n)]});
    [EVENTS, BULK].map(|path| Row { path, limit, most, body: Box::new(body), fault }).into()
}

fn of_document(path: &'static str, limit: &'static str, most: usize, fault: &'static str, body: fn(usize) -> Value) -> Row {
    Row { path, limit, most, body: Box::new(body), fault }
}

fn text(bytes: usize) -> String {
    "a".repeat(bytes)
}

/// An object of so many bytes.
fn object(bytes: usize) -> Value {
    json!({"x": text(bytes - r#"{"x":""}"#.len())})
}

/// A value that nests so deep.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
}

fn event_rows(limits: &Limits) -> Vec<Row> {
    const TEXTS: [(&str, &str); 5] = [
        ("id", "id:too_long"),
        ("content_id", "content_id:too_long"),
        ("content_telemetry_id", "content_telemetry_id:too_long"),
        ("turn_id", "turn_id:too_long"),
        ("output_id", "output_id:too_long"),
    ];
    let mut rows = Vec::new();
    for (name, fault) in TEXTS {
        let body = move |n| json!({"session_id": SESSION, "events": [with(retrieval(URL), Value::Object(Map::from_iter([(name.to_owned(), json!(text(n)))])))]});
        rows.extend([EVENTS, BULK].map(|path| Row { path, limit: name, most: 2_048, body: Box::new(body), fault }));
    }
    rows.extend(of_events("ctx_token", 2_048, "ctx_token:too_long", |n| json!({"ctx_token": text(n)})));
    rows.extend(of_events(
        "content_url",
        8_192,
        "content_url:bad_url",
        |n| json!({"content_url": format!("{URL}{}", text(n - URL.len()))}),
    ));
    rows.extend(of_events("data bytes", limits.max_data_bytes, "data:too_large", |n| json!({"data": object(n)})));
    rows.extend(of_events("data levels", 32, "data:too_deep", |n| json!({"data": nested(n)})));
    rows.extend(of_events("turn bytes", limits.max_data_bytes, "turn:too_large", |n| json!({"turn": object(n)})));
    rows.extend(of_events("turn levels", 32, "turn:too_deep", |n| json!({"turn": nested(n)})));
    rows.extend(of_events(
        "unknown bytes",
        limits.max_data_bytes,
        "event:too_large",
        |n| json!({"own": text(n - r#"own"""#.len())}),
    ));
    rows.extend(of_events("unknown levels", 32, "event:too_deep", |n| json!({"own": nested(n)})));
    rows
}

fn document_rows(limits: &Limits) -> Vec<Row> {
    let events = |n| json!({"session_id": SESSION, "events": vec![retrieval(URL); n]});
    let mut rows = vec![
        Row { path: EVENTS, limit: "events", most: limits.max_events, body: Box::new(events), fault: "events:too_many" },
        Row { path: BULK, limit: "events", most: limits.max_events, body: Box::new(events), fault: "events:too_many" },
        of_document(EVENTS, "agent_id", 2_048, "agent_id:too_long", |n| json!({"agent_id": text(n), "events": [retrieval(URL)]})),
        of_document(
            EVENTS,
            "ctx_token",
            2_048,
            "ctx_token:too_long",
            |n| json!({"ctx_token": text(n), "events": [retrieval(URL)]}),
        ),
        of_document(
            TOKENS,
            "content_url",
            8_192,
            "content_url:bad_url",
            |n| json!({"session_id": SESSION, "content_url": format!("{URL}{}", text(n - URL.len()))}),
        ),
    ];
    for path in [START, BULK] {
        rows.extend([
            of_document(path, "agent_id", 2_048, "agent_id:too_long", |n| json!({"agent_id": text(n)})),
            of_document(path, "content_scope", 2_048, "content_scope:too_long", |n| json!({"content_scope": text(n)})),
            of_document(
                path,
                "external_session_id",
                2_048,
                "external_session_id:too_long",
                |n| json!({"external_session_id": text(n)}),
            ),
            of_document(path, "manifest_ref", 2_048, "manifest_ref:too_long", |n| {
                const END: &str = "/.well-known/content-telemetry.json";
                json!({"manifest_ref": format!("{URL}{}{END}", text(n - URL.len() - END.len()))})
            }),
            of_document(
                path,
                "prior_session_ids",
                100,
                "prior_session_ids:too_many",
                |n| json!({"prior_session_ids": (0..n).map(|n| Uuid::from_u128(1 + n as u128)).collect::<Vec<_>>()}),
            ),
            of_document(
                path,
                "own bytes",
                limits.max_data_bytes,
                "session:too_large",
                |n| json!({"own": text(n - r#"own"""#.len())}),
            ),
            of_document(path, "own levels", 32, "session:too_deep", |n| json!({"own": nested(n)})),
        ]);
    }
    rows
}

fn outcome_rows(limits: &Limits) -> Vec<Row> {
    let of_route = |path| {
        [
            of_document(
                path,
                "outcome's own bytes",
                limits.max_data_bytes,
                "outcome:too_large",
                |n| json!({"session_id": SESSION, "outcome": {"type": "browse", "own": text(n - r#"own"""#.len())}}),
            ),
            of_document(
                path,
                "outcome's own levels",
                32,
                "outcome:too_deep",
                |n| json!({"session_id": SESSION, "outcome": {"type": "browse", "own": nested(n)}}),
            ),
        ]
    };
    [BULK, END].into_iter().flat_map(of_route).collect()
}

#[tokio::test]
async fn every_limit_is_exact_on_every_route_that_has_it() {
    let gateway = Gateway::start().await;
    let limits = Limits::default();
    let mut taken = 0;
    for (n, row) in event_rows(&limits).into_iter().chain(document_rows(&limits)).chain(outcome_rows(&limits)).enumerate() {
        let Row { path, limit, most, body, fault } = row;
        // Of its own, so that no session has ended before.
        let org = gateway.seed().org(&format!("agent {n}"), OrgType::Agent).await;
        let session = json!({"session_id": SESSION});
        assert_eq!(gateway.post_to(BULK, &org.key, &session).await.status, 201);
        let exceeds = gateway.post_to(path, &org.key, &body(most + 1)).await;
        let found: Vec<_> = exceeds.faults().into_iter().map(|(_, field, code)| format!("{field}:{code}")).collect();
        assert_eq!((exceeds.status, found), (422, vec![fault.to_owned()]), "{path} {limit}: {} are one too many", most + 1);
        let fits = gateway.post_to(path, &org.key, &body(most)).await;
        assert!(matches!(fits.status, 200 | 201), "{path} {limit}: {most} are taken: {}", fits.body);
        // A click token is no record.
        taken += if path == TOKENS { 1 } else { 2 };
    }
    assert_eq!(gateway.record_count(), taken, "nothing is on the log of what was one too many");
}

#[tokio::test]
async fn an_idempotency_key_has_a_limit_of_its_own() {
    let gateway = Gateway::start().await;
    let key = gateway.seed().org("agent", OrgType::Agent).await.key;
    for (path, body) in [(EVENTS, json!({"events": [retrieval(URL)]})), (START, json!({})), (BULK, json!({}))] {
        // A key is for one request, whatever its route.
        let named = |length: usize| path.chars().chain(std::iter::repeat('k')).take(length).collect::<String>();
        for (length, status) in [(2_048, 201), (2_049, 400), (0, 400)] {
            let request = gateway.request_to(path, Some(&key)).header("idempotency-key", named(length)).body(body.to_string());
            assert_eq!(answer(request).await.status, status, "{path} {length}");
        }
    }
}
