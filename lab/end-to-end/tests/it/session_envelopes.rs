//! Sessions known only from `POST /events`: their documents contain what the envelopes say about the session.

use crate::pipeline::Pipeline;
use crate::session_documents::{Suite, canonical, plant_token, sorted_events};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::{Seed, SeededOrg};
use tokio_util::sync::CancellationToken;

/// Envelope members that describe the session.
const AROUND: [&str; 5] = ["session_id", "parent_session_id", "agent_id", "started_at", "manifest_ref"];

/// Everything that was sent about a session.
struct Sent {
    name: String,
    reporter: SeededOrg,
    envelopes: Vec<Value>,
    /// The expected document, with the envelopes' members and the events.
    session: Value,
}

/// Splits a session document into one envelope per event.
fn split_into_envelopes(document: &Value) -> Vec<Value> {
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

fn events_in(envelope: &Value) -> Vec<Value> {
    let batch = envelope["events"].as_array().cloned().unwrap_or_default();
    batch.into_iter().chain(envelope.get("event").cloned()).collect()
}

/// Sends a suite, each document from its own organization, starting with the last events.
async fn send_all(front: &Pipeline, suite: &Suite) -> Vec<Sent> {
    let whole = suite.sessions.iter().map(|(name, document)| (name, document.clone(), split_into_envelopes(document)));
    let around = suite.envelopes.iter().map(|(name, envelope)| {
        let mut session = envelope.clone();
        session["events"] = json!(events_in(envelope));
        (name, session, vec![envelope.clone()])
    });
    let mut sent = Vec::new();
    for (name, mut session, envelopes) in whole.chain(around) {
        let reporter = Seed(&front.stores.pool).org(name, OrgType::Agent).await;
        if session["session_id"].is_null() {
            // An envelope with a token belongs to a session. Without a token or id, there is no document.
            session["session_id"] = json!("660e8400-e29b-41d4-a716-4466554400ff");
        }
        for envelope in envelopes.iter().rev() {
            plant_token(&front.stores.pool, &reporter, envelope, session["session_id"].as_str().unwrap()).await;
            front.post("/events", &reporter.key, envelope).await;
        }
        sent.push(Sent { name: name.clone(), reporter, envelopes, session });
    }
    sent
}

/// Checks that every session is read back completely, and doesn't change if everything is sent again.
async fn check_documents(front: &Pipeline, suite: &Suite) {
    let sent = send_all(front, suite).await;
    front.caught_up().await;
    let mut read_before = Vec::new();
    for Sent { name, reporter, session, envelopes } in &sent {
        let path = format!("/sessions/{}/document", session["session_id"].as_str().unwrap());
        let read = front.get(&path, &reporter.key).await;
        if ["session_id", "ctx_token"].iter().all(|member| envelopes[0].get(member).is_none()) {
            assert_eq!(read.status, 404, "{name} names no session");
            continue;
        }
        assert_eq!(read.status, 200, "{name}: {}", read.body);
        assert_eq!(suite.faults(&read.body), Vec::<String>::new(), "{name}: {}", read.body);
        for member in AROUND.iter().filter(|member| session.get(**member).is_some()) {
            assert_eq!(canonical(&read.body[member]), canonical(&session[member]), "{name}: {member}");
        }
        // For a click at its destination, no presentation is known, so it isn't an event of a session document.
        let events = if session.get("ctx_token").is_some() { &read.body["extensions"] } else { &read.body };
        assert_eq!(sorted_events(events), sorted_events(session), "{name}: {}", read.body);
        read_before.push((path, &reporter.key, read.body));
    }
    assert!(read_before.len() + 2 == sent.len(), "exactly an index and an origin must have no session");
    send_again(front, &sent).await;
    front.caught_up().await;
    for (path, key, before) in read_before {
        assert_eq!(front.get(&path, key).await.body, before);
    }
}

/// Sends everything again, unchanged and with contradictory values. The first values must remain.
async fn send_again(front: &Pipeline, sent: &[Sent]) {
    let others = [("started_at", "2026-01-01T00:00:00Z"), ("parent_session_id", "660e8400-e29b-41d4-a716-4466554400fe")];
    for Sent { reporter, envelopes, .. } in sent {
        for envelope in envelopes {
            front.post("/events", &reporter.key, envelope).await;
            let mut other = envelope.clone();
            for (member, value) in others {
                if other.get(member).is_some() {
                    other[member] = json!(value);
                }
            }
            front.post("/events", &reporter.key, &other).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_sessions_known_only_from_events() {
    let front = Pipeline::start().await;
    let stop = CancellationToken::new();
    let _worker = front.spawn_worker(&stop);
    for suite in Suite::all() {
        check_documents(&front, &suite).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_nonstandard_values_as_extensions() {
    let front = Pipeline::start().await;
    let stop = CancellationToken::new();
    let _worker = front.spawn_worker(&stop);
    let suite = Suite::own();
    let agent = Seed(&front.stores.pool).org("agent", OrgType::Agent).await;
    let session = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    let at = |second: u32| format!("2026-08-30T10:00:0{second}.000Z");
    let retrieved = |second, path: &str| {
        json!({"type": "content_retrieved", "timestamp": at(second), "source_role": "agent", "session_id": session,
            "content_url": format!("https://a.test/{path}")})
    };
    // One envelope contains the session id; in another, only the event contains it. Another agent uses the same session.
    let first = json!({"agent_id": "bot", "parent_session_id": "the orchestrator", "manifest_ref": "no URL",
        "started_at": "yesterday", "events": [retrieved(2, "first")]});
    let second = json!({"agent_id": "other bot", "session_id": session, "events": [retrieved(1, "second")]});
    let third = json!({"session_id": session, "events": [retrieved(3, "third")]});
    for envelope in [&first, &second, &third] {
        front.post("/events", &agent.key, envelope).await;
    }
    front.caught_up().await;
    let read = front.get(&format!("/sessions/{session}/document"), &agent.key).await.body;
    assert_eq!(suite.faults(&read), Vec::<String>::new(), "{read}");
    assert_eq!(
        (&read["agent_id"], &read["started_at"]),
        (&json!("other bot"), &json!("2026-08-30T10:00:01.000Z")),
        "those of the first event"
    );
    assert_eq!(
        read["extensions"],
        json!({"initiator_type": "user", "parent_session_id": "the orchestrator", "manifest_ref": "no URL"})
    );
    let named: Vec<&Value> = read["events"].as_array().unwrap().iter().map(|event| &event["extensions"]["agent_id"]).collect();
    assert_eq!(named, [&Value::Null, &json!("bot"), &Value::Null]);

    // If two sessions share an envelope, its members belong to neither.
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
