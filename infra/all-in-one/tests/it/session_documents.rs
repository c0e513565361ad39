//! Click tokens and session documents from the first report to the last look-up: gateway, log, worker, reads.
//!
//! Must not change a document of the public suite, and must not skip: without the suite it fails and says where it looks.

use crate::pipeline::Pipeline;
use chrono::{DateTime, Utc};
use schemas::identity::OrgType;
use schemas::secrets::PlainClickToken;
use serde_json::{Map, Value, json};
use service_kit::testing::{Seed, SeededOrg};
use sqlx::PgPool;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Where the suite lies when this is not set: `shared/fixtures` beside the checkout.
const FOLDER_VARIABLE: &str = "FIXTURES_DIR";

pub(crate) const SESSIONS: &[&str] = &[
    "session-citation-contradiction.json",
    "session-earlier-turn-click.json",
    "session-engagement-types.json",
    "session-evidence-reference.json",
    "session-repeated-link-engagement.json",
    "turn-privacy-summary.json",
];

pub(crate) fn fixture(name: &str) -> Value {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let folder = std::env::var_os(FOLDER_VARIABLE).map_or_else(beside, PathBuf::from);
    let text = std::fs::read_to_string(folder.join(name));
    let text = text.unwrap_or_else(|error| {
        panic!("{name} of the public suite is not in {}: {error}; or name its folder in {FOLDER_VARIABLE}", folder.display())
    });
    serde_json::from_str(&text).unwrap()
}

/// What a document of a session must keep.
pub(crate) fn session_schema() -> jsonschema::Validator {
    let schema = fixture("schemas/telemetry-session.json");
    jsonschema::options().should_validate_formats(true).build(&schema).unwrap()
}

async fn agree(pool: &PgPool, flag: &str, org: &SeededOrg) {
    let statement = format!("UPDATE organizations SET {flag} = true WHERE id = '{}'", org.id);
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(pool).await.unwrap();
}

/// The tokens of a document were minted elsewhere.
pub(crate) async fn plant_tokens(pool: &PgPool, org: &SeededOrg, document: &Value) {
    let session: uuid::Uuid = document["session_id"].as_str().unwrap().parse().unwrap();
    for token in document["events"].as_array().unwrap().iter().filter_map(|event| event["ctx_token"].as_str()) {
        sqlx::query("INSERT INTO sessions (organization_id, session_id) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(org.id.0)
            .bind(session)
            .execute(pool)
            .await
            .unwrap();
        sqlx::query(
            "INSERT INTO click_tokens (token_hash, organization_id, session_id, content_url, created_at, expires_at) \
             VALUES ($1, $2, $3, 'https://a.test/', now(), now() + interval '90 days') ON CONFLICT DO NOTHING",
        )
        .bind(PlainClickToken::presented(token).hash().as_bytes().as_slice())
        .bind(org.id.0)
        .bind(session)
        .execute(pool)
        .await
        .unwrap();
    }
}

/// Instants by value, absent members absent, and without what no store keeps: a click token is a secret.
pub(crate) fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(name, value)| !value.is_null() && *name != "ctx_token");
            Value::Object(kept.map(|(name, value)| (name.clone(), canonical(value))).collect::<Map<_, _>>())
        }
        Value::Array(list) => Value::Array(list.iter().map(canonical).collect()),
        Value::String(text) => text.parse::<DateTime<Utc>>().map_or_else(|_| value.clone(), |at| json!(at)),
        _ => value.clone(),
    }
}

/// In one order, whatever the document's: the uploaded ones are not all sorted by time.
pub(crate) fn sorted_events(document: &Value) -> Vec<Value> {
    let mut events: Vec<Value> = document["events"].as_array().into_iter().flatten().map(canonical).collect();
    events.sort_by_key(Value::to_string);
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uploaded_session_reads_back_as_a_document_of_the_public_standard() {
    let front = Pipeline::start().await;
    let stop = CancellationToken::new();
    let _worker = front.work(&stop);
    let schema = session_schema();
    let agent = Seed(&front.stores.pool).org("agent", OrgType::Agent).await;
    let whole = json!({
        "schema_version": "1.0", "document_type": "session", "session_id": "67e55044-10b1-426f-9247-bb680e5fe0c8",
        "parent_session_id": "67e55044-10b1-426f-9247-bb680e5fe0c9", "conformance_level": "citation",
        "started_at": "2026-08-30T10:00:00Z", "ended_at": "2026-08-30T11:00:00.5Z", "agent_id": "bot", "content_scope": "s",
        "manifest_ref": "https://a.test/.well-known/content-telemetry.json", "data": {"com.a.n": 3}, "org.a.note": ["x"],
        "initiator_type": "agent", "outcome": {"type": "conversion", "value_amount": 4999},
        "events": [{"type": "content_retrieved", "timestamp": "2026-08-30T10:00:01Z", "source_role": "agent", "id": "not a UUID",
            "content_url": "https://a.test/", "content_telemetry_id": "67e55044-10b1-426f-9247-bb680e5fe0d0", "x": 1},
            {"type": "checkout_completed", "timestamp": "2026-08-30T10:00:02Z", "source_role": "agent"}],
    });
    let mut documents = vec![("whole", whole)];
    documents.extend(SESSIONS.iter().map(|name| (*name, fixture(&format!("valid/{name}")))));
    for (_, document) in &documents {
        plant_tokens(&front.stores.pool, &agent, document).await;
        front.post("/sessions/bulk", &agent.key, document).await;
    }
    front.caught_up().await;
    for (name, document) in &documents {
        let path = format!("/sessions/{}/document", document["session_id"].as_str().unwrap());
        let read = front.get(&path, &agent.key).await;
        assert_eq!(read.status, 200, "{name}: {}", read.body);
        let faults: Vec<String> =
            schema.iter_errors(&read.body).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "{name}: {faults:?}\n{}", read.body);
        for (member, said) in document.as_object().unwrap().iter().filter(|(member, said)| *member != "events" && !said.is_null())
        {
            let kept = if read.body[member].is_null() { &read.body["extensions"][member] } else { &read.body[member] };
            // What an outcome leaves out is filled in when it is accepted.
            let expected = if member == "outcome" {
                json!({"type": "conversion", "value_amount": 4999, "currency": "USD"})
            } else {
                said.clone()
            };
            assert_eq!(canonical(kept), canonical(&expected), "{name}: {member}");
        }
        if *name == "whole" {
            let events = &read.body["events"];
            assert_eq!(events.as_array().unwrap().len(), 1, "{events}");
            assert_eq!(events[0]["extensions"], json!({"id": "not a UUID", "x": 1}));
            assert_eq!(read.body["extensions"]["events"][0]["type"], "checkout_completed");
            for member in ["org.a.note", "initiator_type", "outcome"] {
                assert!(read.body.get(member).is_none() && read.body["extensions"].get(member).is_some(), "{member}");
            }
        } else {
            assert_eq!(sorted_events(&read.body), sorted_events(document), "{name}");
        }
        let times: Vec<&str> =
            read.body["events"].as_array().unwrap().iter().map(|event| event["timestamp"].as_str().unwrap()).collect();
        let instants: Vec<DateTime<Utc>> = times.iter().map(|time| time.parse().unwrap()).collect();
        assert!(instants.is_sorted(), "{name}: {times:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_token_walks_from_the_session_to_the_manifest() {
    let front = Pipeline::start().await;
    let stop = CancellationToken::new();
    let _worker = front.work(&stop);
    let seed = Seed(&front.stores.pool);
    let (agent, owner) = (seed.org("agent", OrgType::Agent).await, seed.owner_of("example.com").await);
    let network = seed.org("network", OrgType::Platform).await;
    let started = front.post("/sessions/start", &agent.key, &json!({"agent_id": "bot", "privacy_level": "summary"})).await;
    let session = started.body["session_id"].as_str().unwrap().to_owned();
    let cited = json!({"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "session_id": session, "turn_id": "1",
        "output_id": format!("answer-{session}"), "content_url": "https://www.example.com/page",
        "data": {"citation_type": "paraphrase", "note": session, "excerpt_tokens": 7}});
    front.post("/events", &agent.key, &json!({"events": [cited]})).await;
    let link = json!({"session_id": session, "content_url": "https://www.example.com/page"});
    let token = front.post("/click-tokens", &agent.key, &link).await.body["token"].as_str().unwrap().to_owned();
    front.caught_up().await;

    let path = format!("/ctx/{token}");
    assert_eq!(front.get(&path, &network.key).await.status, 404, "the agent does not share");
    agree(&front.stores.pool, "share_sessions_via_click_tokens", &agent).await;
    let manifest = front.get(&path, &network.key).await.body;
    assert_eq!((&manifest["events"], &manifest["content_urls_cited"]), (&json!([]), &json!([])), "the owner has not agreed");
    agree(&front.stores.pool, "visible_in_click_token_lookups", &owner).await;
    let manifest = front.get(&path, &network.key).await.body;
    let event = json!({"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "content_url": "https://www.example.com/page",
        "turn_id": "1", "data": {"citation_type": "paraphrase", "excerpt_tokens": 7}});
    assert_eq!(manifest["events"], json!([event]));
    assert_eq!(manifest["click_content_url"], "https://www.example.com/page");
    assert!(manifest["started_at"].is_string() && !manifest.to_string().contains(&session));
}
