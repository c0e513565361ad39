//! Click tokens and session documents through the whole pipeline, from the first report to the last read.
//!
//! Uses the gateway's own documents and, if its folder is set, the public suite.

use crate::pipeline::Pipeline;
use chrono::{DateTime, Utc};
use schemas::identity::OrgType;
use schemas::secrets::PlainClickToken;
use serde_json::{Map, Value, json};
use service_kit::testing::{Seed, SeededOrg};
use sqlx::PgPool;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Folder with the public suite; optional.
const FOLDER_VARIABLE: &str = "FIXTURES_DIR";

/// Valid documents, with the schema for sessions that are read back.
pub(crate) struct Suite {
    pub(crate) schema: jsonschema::Validator,
    /// Session documents, by name.
    pub(crate) sessions: Vec<(String, Value)>,
    /// Requests to `/events`, by name.
    pub(crate) envelopes: Vec<(String, Value)>,
}

impl Suite {
    fn load(folder: &Path, schema: &Path) -> Self {
        let mut names: Vec<PathBuf> = std::fs::read_dir(folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        names.sort();
        let documents = names.iter().map(|path| {
            // The envelopes in a suite share one token, but need different sessions here.
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let text = std::fs::read_to_string(path).unwrap();
            let text = text.replace("{token}", "ct_0123456789abcdef").replace("\"ct_", &format!("\"ct_{name}-"));
            (name, serde_json::from_str::<Value>(&text).unwrap())
        });
        let (envelopes, sessions) = documents.partition(|(_, document)| document.get("document_type").is_some());
        let schema = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
        Self { schema: jsonschema::options().should_validate_formats(true).build(&schema).unwrap(), sessions, envelopes }
    }

    pub(crate) fn own() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let folder = root.join("ingest-gateway/tests/documents/accepted");
        Self::load(&folder, &root.join("schemas/json-schema/session-document.json"))
    }

    /// Returns our own suite, and the public one if its folder is set.
    pub(crate) fn all() -> Vec<Self> {
        let public = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from);
        let public = public.map(|folder| Self::load(&folder.join("valid"), &folder.join("schemas/telemetry-session.json")));
        std::iter::once(Self::own()).chain(public).collect()
    }

    /// Returns the document's schema errors.
    pub(crate) fn faults(&self, document: &Value) -> Vec<String> {
        self.schema.iter_errors(document).map(|fault| format!("{}: {fault}", fault.instance_path())).collect()
    }
}

async fn agree(pool: &PgPool, flag: &str, org: &SeededOrg) {
    let statement = format!("UPDATE organizations SET {flag} = true WHERE id = '{}'", org.id);
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(pool).await.unwrap();
}

/// Stores the envelope's token, which was created elsewhere, for a session.
pub(crate) async fn plant_token(pool: &PgPool, org: &SeededOrg, envelope: &Value, session: &str) {
    let Some(token) = envelope["ctx_token"].as_str() else { return };
    let session: uuid::Uuid = session.parse().unwrap();
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

/// Normalizes timestamps, and omits null members and click tokens, which are secrets and aren't stored.
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

/// Returns the events in a canonical order, because uploaded ones aren't always sorted by time.
pub(crate) fn sorted_events(document: &Value) -> Vec<Value> {
    let mut events: Vec<Value> = document["events"].as_array().into_iter().flatten().map(canonical).collect();
    events.sort_by_key(Value::to_string);
    events
}

/// Returns a session with all members of the standard, and some unknown ones.
fn whole() -> Value {
    json!({
        "schema_version": "1.0", "document_type": "session", "session_id": "67e55044-10b1-426f-9247-bb680e5fe0c8",
        "parent_session_id": "67e55044-10b1-426f-9247-bb680e5fe0c9", "conformance_level": "citation",
        "started_at": "2026-08-30T10:00:00Z", "ended_at": "2026-08-30T11:00:00.5Z", "agent_id": "bot", "content_scope": "s",
        "manifest_ref": "https://a.test/.well-known/content-telemetry.json", "data": {"com.a.n": 3}, "org.a.note": ["x"],
        "initiator_type": "agent", "outcome": {"type": "conversion", "value_amount": 4999},
        "events": [{"type": "content_retrieved", "timestamp": "2026-08-30T10:00:01Z", "source_role": "agent", "id": "not a UUID",
            "content_url": "https://a.test/", "content_telemetry_id": "67e55044-10b1-426f-9247-bb680e5fe0d0", "x": 1},
            {"type": "checkout_completed", "timestamp": "2026-08-30T10:00:02Z", "source_role": "agent"}],
    })
}

/// Checks that a session is read back as it was uploaded.
fn check_read_back(suite: &Suite, name: &str, document: &Value, read: &Value) {
    assert_eq!(suite.faults(read), Vec::<String>::new(), "{name}: {read}");
    for (member, said) in document.as_object().unwrap().iter().filter(|(member, said)| *member != "events" && !said.is_null()) {
        let kept = if read[member].is_null() { &read["extensions"][member] } else { &read[member] };
        // The gateway completes outcomes.
        let filled_in = json!({"type": "conversion", "value_amount": 4999, "currency": "USD"});
        let expected = if member == "outcome" { &filled_in } else { said };
        assert_eq!(canonical(kept), canonical(expected), "{name}: {member}");
    }
    let times: Vec<&str> = read["events"].as_array().unwrap().iter().map(|event| event["timestamp"].as_str().unwrap()).collect();
    let instants: Vec<DateTime<Utc>> = times.iter().map(|time| time.parse().unwrap()).collect();
    assert!(instants.is_sorted(), "{name}: {times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn returns_uploaded_sessions_as_standard_documents() {
    let front = Pipeline::start().await;
    let stop = CancellationToken::new();
    let _worker = front.spawn_worker(&stop);
    let agent = Seed(&front.stores.pool).org("agent", OrgType::Agent).await;
    let suites = Suite::all();
    for suite in &suites {
        for (_, document) in &suite.sessions {
            front.post("/sessions/bulk", &agent.key, document).await;
        }
    }
    front.post("/sessions/bulk", &agent.key, &whole()).await;
    front.caught_up().await;
    let path = |document: &Value| format!("/sessions/{}/document", document["session_id"].as_str().unwrap());
    for suite in &suites {
        for (name, document) in &suite.sessions {
            let read = front.get(&path(document), &agent.key).await;
            assert_eq!(read.status, 200, "{name}: {}", read.body);
            check_read_back(suite, name, document, &read.body);
            assert_eq!(sorted_events(&read.body), sorted_events(document), "{name}");
        }
        let read = front.get(&path(&whole()), &agent.key).await.body;
        check_read_back(suite, "whole", &whole(), &read);
        assert_eq!(read["events"].as_array().unwrap().len(), 1, "{read}");
        assert_eq!(read["events"][0]["extensions"], json!({"id": "not a UUID", "x": 1}));
        assert_eq!(read["extensions"]["events"][0]["type"], "checkout_completed");
        for member in ["org.a.note", "initiator_type", "outcome"] {
            assert!(read.get(member).is_none() && read["extensions"].get(member).is_some(), "{member}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn click_token_returns_its_manifest() {
    let front = Pipeline::start().await;
    let stop = CancellationToken::new();
    let _worker = front.spawn_worker(&stop);
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
    let event = json!({"type": "content_cited", "timestamp": "2026-11-01T10:00:00.000Z", "content_url": "https://www.example.com/page",
        "turn_id": "1", "data": {"citation_type": "paraphrase", "excerpt_tokens": 7}});
    assert_eq!(manifest["events"], json!([event]));
    assert_eq!(manifest["click_content_url"], "https://www.example.com/page");
    assert!(manifest["started_at"].is_string() && !manifest.to_string().contains(&session));
}
