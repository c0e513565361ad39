//! Every named limit is exact on every write route. Limits of whole bodies are in `encodings`.

use crate::harness::{Gateway, SESSION, event, retrieval, send_request, try_body};
use serde_json::{Value, json};
use uuid::Uuid;

const URL: &str = "https://a.test/";
const MANIFEST: &str = "/.well-known/content-telemetry.json";
const START: &str = "/sessions/start";
const END: &str = "/sessions/end";
const BULK: &str = "/sessions/bulk";
const EVENTS: &str = "/events";
const TOKENS: &str = "/click-tokens";

const TEXT: usize = 2_048;
const DATA: usize = 64 * 1024;
const LEVELS: usize = 32;

/// The fault above the limit, the limit, and members of a given size.
type Row = (&'static str, usize, fn(usize) -> Value);

const OF_EVENTS: [Row; 13] = [
    ("id:too_long", TEXT, |n| json!({"id": text(n)})),
    ("content_id:too_long", TEXT, |n| json!({"content_id": text(n)})),
    ("content_telemetry_id:too_long", TEXT, |n| json!({"content_telemetry_id": text(n)})),
    ("turn_id:too_long", TEXT, |n| json!({"turn_id": text(n)})),
    ("output_id:too_long", TEXT, |n| json!({"output_id": text(n)})),
    ("ctx_token:too_long", TEXT, |n| json!({"ctx_token": text(n)})),
    ("content_url:bad_url", 8_192, |n| json!({"content_url": url(n)})),
    ("data:too_large", DATA, |n| json!({"data": object(n)})),
    ("data:too_deep", LEVELS, |n| json!({"data": nested(n)})),
    ("turn:too_large", DATA, |n| json!({"turn": object(n)})),
    ("turn:too_deep", LEVELS, |n| json!({"turn": nested(n)})),
    ("event:too_large", DATA, |n| json!({"own": text(n - OWN)})),
    ("event:too_deep", LEVELS, |n| json!({"own": nested(n)})),
];
const OF_SESSIONS: [Row; 7] = [
    ("agent_id:too_long", TEXT, |n| json!({"agent_id": text(n)})),
    ("content_scope:too_long", TEXT, |n| json!({"content_scope": text(n)})),
    ("external_session_id:too_long", TEXT, |n| json!({"external_session_id": text(n)})),
    ("manifest_ref:too_long", TEXT, |n| json!({"manifest_ref": format!("{}{MANIFEST}", url(n - MANIFEST.len()))})),
    ("prior_session_ids:too_many", 100, |n| json!({"prior_session_ids": vec![Uuid::max(); n]})),
    ("session:too_large", DATA, |n| json!({"own": text(n - OWN)})),
    ("session:too_deep", LEVELS, |n| json!({"own": nested(n)})),
];
const OF_OUTCOMES: [Row; 2] = [
    ("outcome:too_large", DATA, |n| json!({"session_id": SESSION, "outcome": {"type": "browse", "own": text(n - OWN)}})),
    ("outcome:too_deep", LEVELS, |n| json!({"session_id": SESSION, "outcome": {"type": "browse", "own": nested(n)}})),
];
const OF_BATCHES: [Row; 1] = [("events:too_many", 1_000, |n| json!({"session_id": SESSION, "events": vec![retrieval(URL); n]}))];
const OF_ENVELOPES: [Row; 2] = [
    ("agent_id:too_long", TEXT, |n| json!({"agent_id": text(n), "events": [retrieval(URL)]})),
    ("ctx_token:too_long", TEXT, |n| json!({"ctx_token": text(n), "events": [retrieval(URL)]})),
];
const OF_TOKENS: [Row; 1] = [("content_url:bad_url", 8_192, |n| json!({"session_id": SESSION, "content_url": url(n)}))];

/// Size of a member `own` without its text.
const OWN: usize = r#"own"""#.len();

/// Returns text with this many bytes but fewer characters.
fn text(bytes: usize) -> String {
    "é".repeat(bytes / 2) + &"a".repeat(bytes % 2)
}

fn url(bytes: usize) -> String {
    format!("{URL}{}", "a".repeat(bytes - URL.len()))
}

fn object(bytes: usize) -> Value {
    json!({"x": text(bytes - r#"{"x":""}"#.len())})
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
}

#[test]
fn x7_x13_e16_limits_are_exact_on_every_route() {
    let check = |path: &str, fault: &str, most: usize, body: &dyn Fn(usize) -> Value| {
        let exceeds = try_body(path, body(most + 1).to_string()).map(|record| record.events.len());
        assert_eq!(exceeds, Err((422, vec![fault.to_owned()])), "{path}: {} is over the limit", most + 1);
        let fits = try_body(path, body(most).to_string()).map(drop);
        assert_eq!(fits, Ok(()), "{path} {fault}: {most} is within the limit");
    };
    for path in [EVENTS, BULK] {
        for (fault, most, members) in OF_EVENTS {
            let body = |n| json!({"session_id": SESSION, "events": [event("content_cited", members(n))]});
            check(path, &format!("0.{fault}"), most, &body);
        }
    }
    for (paths, rows) in [
        (vec![START, BULK], OF_SESSIONS.as_slice()),
        (vec![BULK, END], OF_OUTCOMES.as_slice()),
        (vec![EVENTS, BULK], OF_BATCHES.as_slice()),
        (vec![EVENTS], OF_ENVELOPES.as_slice()),
        (vec![TOKENS], OF_TOKENS.as_slice()),
    ] {
        for path in paths {
            rows.iter().for_each(|(fault, most, body)| check(path, fault, *most, body));
        }
    }
}

#[tokio::test]
async fn limits_the_length_of_idempotency_keys() {
    let (gateway, key) = Gateway::with_agent().await;
    for (path, body) in [(EVENTS, json!({"events": [retrieval(URL)]})), (START, json!({})), (BULK, json!({}))] {
        // A key is bound to one request, so each route needs its own.
        let named = |length: usize| path.chars().chain(std::iter::repeat('k')).take(length).collect::<String>();
        for (length, status) in [(2_048, 201), (2_049, 400), (0, 400)] {
            let request = gateway.post_request(path, &key).header("idempotency-key", named(length)).body(body.to_string());
            assert_eq!(send_request(request).await.status, status, "{path} {length}");
        }
    }
}
