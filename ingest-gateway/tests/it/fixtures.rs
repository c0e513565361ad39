//! K6: every document of the public suite, posted as it is, in loose and in strict mode: fixture → outcome.
//!
//! Must not change a document, and must not skip: without the suite it fails and says where it looks.
//!
//! The click tokens of the documents were minted elsewhere, so each test plants them first, for the session that its
//! document names; `token123` stays unknown.

use crate::harness::{Answer, Gateway, answer};
use schemas::identity::OrgType;
use schemas::secrets::PlainClickToken;
use serde_json::Value;
use service_kit::testing::SeededOrg;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the suite lies when this is not set: `shared/fixtures` beside the checkout.
const FOLDER_VARIABLE: &str = "FIXTURES_DIR";
/// A session for tokens whose document names none.
const ISSUING_SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

const EVENTS: &str = "/events";
const BULK: &str = "/sessions/bulk";

/// What a document gets.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// 201 with this many events.
    Created(usize),
    /// 422 with exactly these faults, as `index.field:code`.
    Refused(&'static [&'static str]),
}
use Outcome::{Created, Refused};

/// Document, endpoint, outcome in loose mode, outcome in strict mode.
type Row = (&'static str, &'static str, Outcome, Outcome);

const VALID: &[Row] = &[
    ("valid/event-batch-agent.json", EVENTS, Created(4), Created(4)),
    ("valid/event-batch-destination-engagements.json", EVENTS, Created(2), Created(2)),
    ("valid/event-batch-grounding-provenance.json", EVENTS, Created(2), Created(2)),
    ("valid/event-standalone-agent.json", EVENTS, Created(1), Created(1)),
    ("valid/event-standalone-child-session.json", EVENTS, Created(1), Created(1)),
    ("valid/event-standalone-engaged-ctx-token.json", EVENTS, Created(1), Created(1)),
    ("valid/event-standalone-engaged-redirect.json", EVENTS, Created(1), Created(1)),
    ("valid/event-standalone-index.json", EVENTS, Created(1), Created(1)),
    ("valid/event-standalone-origin.json", EVENTS, Created(1), Created(1)),
    ("valid/session-citation-contradiction.json", BULK, Created(6), Created(6)),
    ("valid/session-earlier-turn-click.json", BULK, Created(5), Created(5)),
    ("valid/session-engagement-types.json", BULK, Created(9), Created(9)),
    ("valid/session-evidence-reference.json", BULK, Created(1), Created(1)),
    ("valid/session-repeated-link-engagement.json", BULK, Created(5), Created(5)),
    ("valid/turn-privacy-summary.json", BULK, Created(1), Created(1)),
];

const INVALID: &[Row] = &[
    // Any opaque string may be a token; this one was never minted.
    (
        "invalid/batch-ctx-token-bad-pattern.json",
        EVENTS,
        Refused(&["0.ctx_token:unknown_token"]),
        Refused(&["ctx_token:bad_token", "0.ctx_token:unknown_token"]),
    ),
    // The token binds the engagement; the grounding beside it has no session.
    (
        "invalid/batch-ctx-token-non-engagement.json",
        EVENTS,
        Refused(&["0.session_id:required"]),
        Refused(&["ctx_token:not_allowed", "0.session_id:required"]),
    ),
    ("invalid/batch-engaged-missing-presentation-id.json", EVENTS, Created(1), Refused(&["0.presentation_id:required"])),
    (
        "invalid/batch-missing-session-mixed-retrieval.json",
        EVENTS,
        Refused(&["0.session_id:required", "1.session_id:required"]),
        Refused(&["session_id:required", "0.session_id:required", "1.session_id:required"]),
    ),
    // Stored as `unclassified`.
    ("invalid/citation-type-invalid.json", BULK, Created(1), Refused(&["0.data.citation_type:unknown_value"])),
    ("invalid/ctx-token-on-grounded.json", BULK, Refused(&["0.ctx_token:not_allowed"]), Refused(&["0.ctx_token:not_allowed"])),
    // A repeat is no fault, and changes nothing.
    ("invalid/duplicate-event-id.json", BULK, Created(3), Refused(&["1.id:duplicate"])),
    ("invalid/engaged-missing-identifier.json", BULK, Refused(&["1.content_url:required"]), Refused(&["1.content_url:required"])),
    (
        "invalid/grounded-missing-identifier-batch.json",
        EVENTS,
        Refused(&["0.content_url:required"]),
        Refused(&["0.content_url:required"]),
    ),
    ("invalid/legacy-schema-version-0-1.json", BULK, Created(1), Refused(&["schema_version:unknown_value"])),
    // An id that is no UUID is an id.
    ("invalid/malformed-event-id.json", BULK, Created(1), Refused(&["0.id:bad_uuid"])),
    // What stands above the level is stripped.
    (
        "invalid/privacy-violation-query-at-minimal-batch.json",
        EVENTS,
        Created(1),
        Refused(&["0.turn.query_text:privacy_violation"]),
    ),
    // In a whole session the retrieval has a session, and its observer may stay unsaid.
    ("invalid/retrieved-missing-source-role.json", BULK, Created(1), Refused(&["0.source_role:required"])),
    ("invalid/shared-ctx-token-two-presentations.json", BULK, Created(4), Refused(&["3.ctx_token:shared"])),
    // The token is passed over for what cannot carry one; then there is no session.
    (
        "invalid/standalone-ctx-token-non-engagement.json",
        EVENTS,
        Refused(&["0.session_id:required"]),
        Refused(&["ctx_token:not_allowed", "0.session_id:required"]),
    ),
    (
        "invalid/standalone-malformed-session-id.json",
        EVENTS,
        Refused(&["session_id:bad_uuid"]),
        Refused(&["session_id:bad_uuid"]),
    ),
    // The address hash is stripped.
    ("invalid/withdrawn-ip-hash-batch.json", EVENTS, Created(1), Refused(&["0.data.ip_hash:withdrawn"])),
];

fn folder() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/fixtures");
    let folder = std::env::var_os(FOLDER_VARIABLE).map_or_else(beside, PathBuf::from);
    let is_there = folder.join("valid").is_dir() && folder.join("invalid").is_dir();
    assert!(is_there, "the public suite is not in {}: put it there, or name its folder in {FOLDER_VARIABLE}", folder.display());
    folder
}

fn document(name: &str) -> (String, Value) {
    let text = std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let value = serde_json::from_str(&text).expect("a fixture is JSON");
    (text, value)
}

/// Makes the tokens of a document known, as those of the session it names.
async fn plant_tokens(gateway: &Gateway, org: &SeededOrg, document: &Value) {
    let session = document["session_id"].as_str().and_then(|named| uuid::Uuid::try_parse(named).ok());
    let session = session.unwrap_or_else(|| ISSUING_SESSION.parse().expect("it is a UUID"));
    let events = document["events"].as_array().cloned().unwrap_or_default();
    let tokens: BTreeSet<&str> =
        events.iter().chain([document]).filter_map(|holder| holder["ctx_token"].as_str()).filter(|t| *t != "token123").collect();
    for token in tokens {
        sqlx::query("INSERT INTO sessions (organization_id, session_id) VALUES ($1, $2) ON CONFLICT DO NOTHING")
            .bind(org.id.0)
            .bind(session)
            .execute(&gateway.stores.pool)
            .await
            .expect("a session is planted");
        sqlx::query(
            "INSERT INTO click_tokens (token_hash, organization_id, session_id, content_url, created_at, expires_at) \
             VALUES ($1, $2, $3, 'https://www.example.com/', now(), now() + interval '90 days') \
             ON CONFLICT (token_hash) DO UPDATE SET organization_id = $2, session_id = $3",
        )
        .bind(PlainClickToken::presented(token).hash().as_bytes().as_slice())
        .bind(org.id.0)
        .bind(session)
        .execute(&gateway.stores.pool)
        .await
        .expect("a token is planted");
    }
}

async fn post(gateway: &Gateway, key: &str, path: &str, body: String) -> Answer {
    answer(gateway.request_to(path, Some(key)).body(body)).await
}

fn faults(answer: &Answer) -> Vec<String> {
    let place = |index: Option<u64>| index.map(|index| format!("{index}.")).unwrap_or_default();
    answer.faults().into_iter().map(|(index, field, code)| format!("{}{field}:{code}", place(index))).collect()
}

async fn check(gateway: &Gateway, rows: &[Row], is_strict: bool) {
    let mut wrong = Vec::new();
    for (name, path, loose, strict) in rows {
        let org = gateway.seed().org(name, OrgType::Agent).await;
        if is_strict {
            gateway.seed().make_strict(org.id).await;
        }
        let (text, document) = document(name);
        plant_tokens(gateway, &org, &document).await;
        let answer = post(gateway, &org.key, path, text).await;
        let expected = if is_strict { strict } else { loose };
        let is_met = match expected {
            Created(count) => answer.status == 201 && answer.body["events_created"] == *count,
            Refused(expected) => answer.status == 422 && faults(&answer) == *expected,
        };
        if !is_met {
            wrong.push(format!("{name}: expected {expected:?}, got {} {:?} {}", answer.status, faults(&answer), answer.body));
        }
    }
    assert!(wrong.is_empty(), "strict: {is_strict}\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn valid_documents_are_accepted_in_both_modes() {
    let gateway = Gateway::start().await;
    check(&gateway, VALID, false).await;
    check(&gateway, VALID, true).await;
}

#[tokio::test]
async fn invalid_documents_get_what_the_decisions_say_in_both_modes() {
    let gateway = Gateway::start().await;
    check(&gateway, INVALID, false).await;
    check(&gateway, INVALID, true).await;
}

#[test]
fn every_document_of_the_suite_has_its_row() {
    let listed: BTreeSet<String> = VALID.iter().chain(INVALID).map(|row| row.0.to_owned()).collect();
    let present: BTreeSet<String> = ["valid", "invalid"]
        .into_iter()
        .flat_map(|kind| std::fs::read_dir(folder().join(kind)).expect("the suite can be listed").map(move |entry| (kind, entry)))
        .map(|(kind, entry)| format!("{kind}/{}", entry.expect("an entry is read").file_name().to_string_lossy()))
        .collect();
    assert_eq!(listed, present);
}
