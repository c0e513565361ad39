//! Sessions that only `POST /events` has told of: what stands around their events is in their documents.
//!
//! Must send every event of the public suite, and none of them any other way.

use crate::pipeline::Pipeline;
use crate::session_documents::{SESSIONS, canonical, fixture, plant_tokens, session_schema, sorted_events};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::{Seed, SeededOrg};
use tokio_util::sync::CancellationToken;

const ENVELOPES: &[&str] = &[
    "event-batch-agent.json",
    "event-batch-destination-engagements.json",
    "event-batch-grounding-provenance.json",
    "event-standalone-agent.json",
    "event-standalone-child-session.json",
    "event-standalone-engaged-ctx-token.json",
    "event-standalone-engaged-redirect.json",
    "event-standalone-index.json",
    "event-standalone-origin.json",
];
/// What an envelope says of its session.
const AROUND: [&str; 5] = ["session_id", "parent_session_id", "agent_id", "started_at", "manifest_ref"];

/// Everything that was sent of one session.
struct Sent {
    name: &'static str,
    reporter: SeededOrg,
    envelopes: Vec<Value>,
    /// As it must read back: what was said around the events, and the events.
    session: Value,
}

/// Each event of a session document in an envelope of its own.
fn taken_apart(document: &Value) -> Vec<Value> {
    let around = AROUND.iter().filter_map(|name| Some(((*name).to_owned(), document.get(*name)?.clone())));
    let around: serde_json::Map<_, _> = around.collect();
    let events = document["events"].as_array().unwrap();
    let envelope = |event: &Value| {
        let mut envelope = around.clone();
        envelope.extend([("document_type".to_owned(), json!("event")), ("schema_version".to_owned(), json!("1.0"))]);
        envelope.insert("event".to_owned(), event.clone());
        Value::Object(envelope)
    };
    events.iter().map(envelope).collect()
}

/// The events of an envelope.
fn events_in(envelope: &Value) -> Vec<Value> {
    let batch = envelope["events"].as_array().cloned().unwrap_or_default();
    batch.into_iter().chain(envelope.get("event").cloned()).collect()
}

/// The tokens of an envelope, which were minted elsewhere, all of one session.
async fn plant(front: &Pipeline, reporter: &SeededOrg, envelope: &Value, session: &str) {
    let around = envelope.get("ctx_token").map(|token| json!({ "ctx_token": token }));
    let events: Vec<Value> = events_in(envelope).into_iter().chain(around).collect();
    plant_tokens(&front.stores.pool, reporter, &json!({"session_id": session, "events": events})).await;
}

/// Sends the suite, each document by an organisation of its own, the last events first.
async fn send_all(front: &Pipeline) -> Vec<Sent> {
    let mut sent = Vec::new();
    for name in ENVELOPES.iter().chain(SESSIONS) {
        let reporter = Seed(&front.stores.pool).org(name, OrgType::Agent).await;
        // Documents share tokens, which here stand for different sessions.
        let document = fixture(&format!("valid/{name}")).to_string().replace("\"ct_", &format!("\"ct_{}", sent.len()));
        let document: Value = serde_json::from_str(&document).unwrap();
        let is_session = SESSIONS.contains(name);
        let mut session = document.clone();
        if !is_session {
            session["events"] = json!(events_in(&document));
        }
        // A token stands for some session; what has neither has no document.
        let id = "660e8400-e29b-41d4-a716-4466554400ff".to_owned();
        let id = document["session_id"].as_str().map_or(id, str::to_owned);
        session["session_id"] = json!(id);
        let envelopes = if is_session { taken_apart(&document) } else { vec![document] };
        for envelope in &envelopes {
            plant(front, &reporter, envelope, &id).await;
        }
        for envelope in envelopes.iter().rev() {
            front.post("/events", &reporter.key, envelope).await;
        }
        sent.push(Sent { name, reporter, envelopes, session });
    }
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_only_events_told_of_has_a_whole_document() {
    let front = Pipeline::start().await;
    let stop = CancellationToken::new();
    let _worker = front.work(&stop);
    let schema = session_schema();
    let sent = send_all(&front).await;
    front.caught_up().await;
    let mut read_before = Vec::new();
    for Sent { name, reporter, session, .. } in &sent {
        let path = format!("/sessions/{}/document", session["session_id"].as_str().unwrap());
        let read = front.get(&path, &reporter.key).await;
        if ["event-standalone-index.json", "event-standalone-origin.json"].contains(name) {
            assert_eq!(read.status, 404, "{name} names no session");
            continue;
        }
        assert_eq!(read.status, 200, "{name}: {}", read.body);
        let faults: Vec<String> =
            schema.iter_errors(&read.body).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "{name}: {faults:?}\n{}", read.body);
        for member in AROUND.iter().filter(|member| session.get(**member).is_some()) {
            assert_eq!(canonical(&read.body[member]), canonical(&session[member]), "{name}: {member}");
        }
        // Of a destination's click nobody knows the presentation: it is no event of a session document.
        let events = if name.contains("engage") && ENVELOPES.contains(name) { &read.body["extensions"] } else { &read.body };
        assert_eq!(sorted_events(events), sorted_events(session), "{name}: {}", read.body);
        read_before.push((path, &reporter.key, read.body));
    }
    assert_eq!(read_before.len(), sent.len() - 2);

    // Sent again, it is the same; what contradicts it later changes nothing.
    for Sent { reporter, envelopes, .. } in &sent {
        for envelope in envelopes {
            front.post("/events", &reporter.key, envelope).await;
            let mut other = envelope.clone();
            for (member, value) in
                [("started_at", "2026-01-01T00:00:00Z"), ("parent_session_id", "660e8400-e29b-41d4-a716-4466554400fe")]
            {
                if other.get(member).is_some() {
                    other[member] = json!(value);
                }
            }
            front.post("/events", &reporter.key, &other).await;
        }
    }
    front.caught_up().await;
    for (path, key, before) in read_before {
        assert_eq!(front.get(&path, key).await.body, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_a_document_stands_under_its_extensions() {
    let front = Pipeline::start().await;
    let stop = CancellationToken::new();
    let _worker = front.work(&stop);
    let schema = session_schema();
    let agent = Seed(&front.stores.pool).org("agent", OrgType::Agent).await;
    let session = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    let at = |second: u32| format!("2026-08-30T10:00:0{second}Z");
    let retrieved = |second, path: &str| {
        json!({"type": "content_retrieved", "timestamp": at(second), "source_role": "agent", "session_id": session,
            "content_url": format!("https://a.test/{path}")})
    };
    // One names the session and another only through its event; the second agent answers in the same session.
    let first = json!({"agent_id": "bot", "parent_session_id": "the orchestrator", "manifest_ref": "no URL",
        "started_at": "yesterday", "events": [retrieved(2, "first")]});
    let second = json!({"agent_id": "other bot", "session_id": session, "events": [retrieved(1, "second")]});
    let third = json!({"session_id": session, "events": [retrieved(3, "third")]});
    for envelope in [&first, &second, &third] {
        front.post("/events", &agent.key, envelope).await;
    }
    front.caught_up().await;
    let read = front.get(&format!("/sessions/{session}/document"), &agent.key).await.body;
    assert!(schema.is_valid(&read), "{read}");
    assert_eq!((&read["agent_id"], &read["started_at"]), (&json!("other bot"), &json!(at(1))), "those of the first event");
    assert_eq!(read["extensions"], json!({"parent_session_id": "the orchestrator", "manifest_ref": "no URL"}));
    let named: Vec<&Value> = read["events"].as_array().unwrap().iter().map(|event| &event["extensions"]["agent_id"]).collect();
    assert_eq!(named, [&Value::Null, &json!("bot"), &Value::Null]);

    // What two sessions share an envelope with is said of neither.
    let ids = ["67e55044-10b1-426f-9247-bb680e5fe0d1", "67e55044-10b1-426f-9247-bb680e5fe0d2"];
    let of = |id: &str| {
        json!({"type": "content_retrieved", "timestamp": at(1), "source_role": "agent", "session_id": id,
        "content_url": "https://a.test/"})
    };
    front.post("/events", &agent.key, &json!({"started_at": at(0), "events": ids.map(of)})).await;
    front.caught_up().await;
    for id in ids {
        let read = front.get(&format!("/sessions/{id}/document"), &agent.key).await.body;
        assert_eq!(read["started_at"], json!(at(1)), "{read}");
    }
}
