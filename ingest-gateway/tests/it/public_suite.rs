//! K6: where the public suite lies beside the clone, every document of it too, posted as it is, in default and in strict
//! mode. Where it does not, this run is no part of the tests: `fixtures` has a document of our own for each of its rules.

use crate::fixtures::Outcome::{Created, Refused};
use crate::fixtures::{BULK, EVENTS, Row, listed, post, reporter, verdict};
use crate::harness::Gateway;
use schemas::secrets::PlainClickToken;
use serde_json::Value;
use service_kit::testing::SeededOrg;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The folder of the suite; unset, none of this runs.
const FOLDER_VARIABLE: &str = "FIXTURES_DIR";
/// A session for tokens whose document names none.
const ISSUING_SESSION: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

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
    (
        "invalid/batch-ctx-token-bad-pattern.json",
        EVENTS,
        Refused(&["0.ctx_token:unknown_token"]),
        Refused(&["ctx_token:bad_token", "0.ctx_token:unknown_token"]),
    ),
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
    ("invalid/citation-type-invalid.json", BULK, Created(1), Refused(&["0.data.citation_type:unknown_value"])),
    ("invalid/ctx-token-on-grounded.json", BULK, Created(1), Refused(&["0.ctx_token:not_allowed"])),
    ("invalid/duplicate-event-id.json", BULK, Created(3), Refused(&["1.id:duplicate"])),
    ("invalid/engaged-missing-identifier.json", BULK, Refused(&["1.content_url:required"]), Refused(&["1.content_url:required"])),
    (
        "invalid/grounded-missing-identifier-batch.json",
        EVENTS,
        Refused(&["0.content_url:required"]),
        Refused(&["0.content_url:required"]),
    ),
    ("invalid/legacy-schema-version-0-1.json", BULK, Created(1), Refused(&["schema_version:unknown_value"])),
    ("invalid/malformed-event-id.json", BULK, Created(1), Refused(&["0.id:bad_uuid"])),
    (
        "invalid/privacy-violation-query-at-minimal-batch.json",
        EVENTS,
        Created(1),
        Refused(&["0.turn.query_text:privacy_violation"]),
    ),
    ("invalid/retrieved-missing-source-role.json", BULK, Created(1), Refused(&["0.source_role:required"])),
    ("invalid/shared-ctx-token-two-presentations.json", BULK, Created(4), Refused(&["3.ctx_token:shared"])),
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
    ("invalid/withdrawn-ip-hash-batch.json", EVENTS, Created(1), Refused(&["0.data.ip_hash:withdrawn"])),
];

/// Makes the token around events known, as one of the reporter's own.
async fn plant_token(gateway: &Gateway, org: &SeededOrg, document: &Value) {
    let Some(token) = document["ctx_token"].as_str().filter(|token| *token != "token123") else { return };
    let session: uuid::Uuid = ISSUING_SESSION.parse().expect("it is a UUID");
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

#[tokio::test]
async fn every_document_of_the_public_suite_gets_what_is_promised_where_the_suite_is_there() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE).map(PathBuf::from) else { return };
    let rows: BTreeSet<String> = VALID.iter().chain(INVALID).map(|row| row.0.to_owned()).collect();
    assert_eq!(rows, listed(&folder, ["valid", "invalid"]), "{FOLDER_VARIABLE}={}", folder.display());
    let gateway = Gateway::start().await;
    let mut wrong = Vec::new();
    for is_strict in [false, true] {
        for (name, path, default, strict) in VALID.iter().chain(INVALID) {
            let org = reporter(&gateway, name, is_strict).await;
            let text = std::fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
            plant_token(&gateway, &org, &serde_json::from_str(&text).expect("a document is JSON")).await;
            let answer = post(&gateway, &org.key, path, text).await;
            wrong.extend(verdict(name, if is_strict { strict } else { default }, &answer));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
