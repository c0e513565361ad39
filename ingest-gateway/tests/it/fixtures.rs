//! Documents of our own (`tests/documents`), one for each rule that the public suite exercises, in default and in strict
//! mode: document → outcome.

use crate::harness::{Answer, Gateway, answer};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::SeededOrg;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) const EVENTS: &str = "/events";
pub(crate) const BULK: &str = "/sessions/bulk";
/// Where a click token of the reporter's own goes.
const PLACE_OF_TOKEN: &str = "{token}";

#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// 201 with this many events.
    Created(usize),
    /// 422 with exactly these faults, as `index.field:code`.
    Refused(&'static [&'static str]),
}
use Outcome::{Created, Refused};

/// Document, endpoint, outcome in default mode, outcome in strict mode.
pub(crate) type Row = (&'static str, &'static str, Outcome, Outcome);

const ACCEPTED: &[Row] = &[
    ("accepted/batch-of-an-agent.json", EVENTS, Created(4), Created(4)),
    ("accepted/batch-of-clicks-by-token.json", EVENTS, Created(2), Created(2)),
    ("accepted/batch-of-groundings.json", EVENTS, Created(2), Created(2)),
    ("accepted/event-of-a-child-session.json", EVENTS, Created(1), Created(1)),
    ("accepted/event-of-a-click-by-token.json", EVENTS, Created(1), Created(1)),
    ("accepted/event-of-a-redirected-click.json", EVENTS, Created(1), Created(1)),
    ("accepted/event-of-an-agent.json", EVENTS, Created(1), Created(1)),
    ("accepted/event-of-an-index.json", EVENTS, Created(1), Created(1)),
    ("accepted/event-of-an-origin.json", EVENTS, Created(1), Created(1)),
    // With tokens of other issuers, which nobody here knows.
    ("accepted/session-clicked-in-a-later-turn.json", BULK, Created(5), Created(5)),
    ("accepted/session-of-a-turn-at-summary.json", BULK, Created(1), Created(1)),
    ("accepted/session-of-other-engagements.json", BULK, Created(9), Created(9)),
    ("accepted/session-that-contradicts.json", BULK, Created(6), Created(6)),
    ("accepted/session-with-a-link-shown-twice.json", BULK, Created(5), Created(5)),
    ("accepted/session-with-evidence.json", BULK, Created(1), Created(1)),
];

const REFUSED: &[Row] = &[
    // The address hash is stripped.
    ("refused/batch-address-hash.json", EVENTS, Created(1), Refused(&["0.data.ip_hash:withdrawn"])),
    // Any opaque string may be a token; this one was never minted.
    (
        "refused/batch-by-a-token-of-no-shape.json",
        EVENTS,
        Refused(&["0.ctx_token:unknown_token"]),
        Refused(&["ctx_token:bad_token", "0.ctx_token:unknown_token"]),
    ),
    // The token binds the engagement; the grounding beside it has no session.
    (
        "refused/batch-by-a-token-with-a-grounding.json",
        EVENTS,
        Refused(&["0.session_id:required"]),
        Refused(&["ctx_token:not_allowed", "0.session_id:required"]),
    ),
    ("refused/batch-engaged-without-presentation.json", EVENTS, Created(1), Refused(&["0.presentation_id:required"])),
    (
        "refused/batch-grounding-of-nothing.json",
        EVENTS,
        Refused(&["0.content_url:required"]),
        Refused(&["0.content_url:required"]),
    ),
    // What stands above the level is stripped.
    ("refused/batch-text-at-minimal.json", EVENTS, Created(1), Refused(&["0.turn.query_text:privacy_violation"])),
    (
        "refused/batch-without-a-session.json",
        EVENTS,
        Refused(&["0.session_id:required", "1.session_id:required"]),
        Refused(&["session_id:required", "0.session_id:required", "1.session_id:required"]),
    ),
    (
        "refused/event-by-a-token-that-is-a-grounding.json",
        EVENTS,
        Refused(&["0.session_id:required"]),
        Refused(&["ctx_token:not_allowed", "0.session_id:required"]),
    ),
    (
        "refused/event-of-a-session-that-is-no-uuid.json",
        EVENTS,
        Refused(&["session_id:bad_uuid"]),
        Refused(&["session_id:bad_uuid"]),
    ),
    // Stored as `unclassified`.
    ("refused/session-citation-of-no-class.json", BULK, Created(1), Refused(&["0.data.citation_type:unknown_value"])),
    (
        "refused/session-engaged-with-nothing.json",
        BULK,
        Refused(&["1.content_url:required"]),
        Refused(&["1.content_url:required"]),
    ),
    // An id that is no UUID is an id.
    ("refused/session-id-of-an-event-is-no-uuid.json", BULK, Created(1), Refused(&["0.id:bad_uuid"])),
    ("refused/session-of-version-0-1.json", BULK, Created(1), Refused(&["schema_version:unknown_value"])),
    ("refused/session-one-token-two-presentations.json", BULK, Created(4), Refused(&["3.ctx_token:shared"])),
    // In a whole session the retrieval has a session, and its observer may stay unsaid.
    ("refused/session-retrieval-by-nobody.json", BULK, Created(1), Refused(&["0.source_role:required"])),
    // Kept as its hash.
    ("refused/session-token-on-a-grounding.json", BULK, Created(1), Refused(&["0.ctx_token:not_allowed"])),
    // A repeat is no fault, and changes nothing.
    ("refused/session-two-events-of-one-id.json", BULK, Created(3), Refused(&["1.id:duplicate"])),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents")
}

/// A click token of the reporter's own.
async fn mint(gateway: &Gateway, key: &str) -> String {
    let session = gateway.post_to("/sessions/start", key, &json!({})).await.body["session_id"].clone();
    let link = json!({"session_id": session, "content_url": "https://tide-tables.example/harbours/leeward"});
    let minted = gateway.post_to("/click-tokens", key, &link).await;
    minted.body["token"].as_str().expect("a token is minted").to_owned()
}

/// The text of one of our documents, as it is sent.
async fn own_document(gateway: &Gateway, org: &SeededOrg, name: &str) -> String {
    let text = std::fs::read_to_string(folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    if text.contains(PLACE_OF_TOKEN) { text.replace(PLACE_OF_TOKEN, &mint(gateway, &org.key).await) } else { text }
}

pub(crate) async fn post(gateway: &Gateway, key: &str, path: &str, body: String) -> Answer {
    answer(gateway.request_to(path, Some(key)).body(body)).await
}

/// Why the answer is not the expected one.
pub(crate) fn verdict(name: &str, expected: &Outcome, answer: &Answer) -> Option<String> {
    let place = |index: Option<u64>| index.map(|index| format!("{index}.")).unwrap_or_default();
    let faults: Vec<String> =
        answer.faults().into_iter().map(|(index, field, code)| format!("{}{field}:{code}", place(index))).collect();
    let is_met = match expected {
        Created(count) => answer.status == 201 && answer.body["events_created"] == *count,
        Refused(expected) => answer.status == 422 && faults == *expected,
    };
    (!is_met).then(|| format!("{name}: expected {expected:?}, got {} {faults:?} {}", answer.status, answer.body))
}

/// An agent of its own for each document, held to the public rules or not.
pub(crate) async fn reporter(gateway: &Gateway, name: &str, is_strict: bool) -> SeededOrg {
    let org = gateway.seed().org(name, OrgType::Agent).await;
    if is_strict {
        gateway.seed().make_strict(org.id).await;
    }
    org
}

async fn check(gateway: &Gateway, rows: &[Row], is_strict: bool) {
    let mut wrong = Vec::new();
    for (name, path, default, strict) in rows {
        let org = reporter(gateway, name, is_strict).await;
        let text = own_document(gateway, &org, name).await;
        let answer = post(gateway, &org.key, path, text).await;
        wrong.extend(verdict(name, if is_strict { strict } else { default }, &answer));
    }
    assert!(wrong.is_empty(), "strict: {is_strict}\n{}", wrong.join("\n"));
}

/// Every document below two folders.
pub(crate) fn listed(folder: &Path, kinds: [&str; 2]) -> BTreeSet<String> {
    let of = |kind: &str| {
        let entries = std::fs::read_dir(folder.join(kind)).expect("the documents can be listed");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry is read").file_name();
        entries.map(|entry| format!("{kind}/{}", name(entry).to_string_lossy())).collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(of).collect()
}

#[tokio::test]
async fn good_documents_are_accepted_in_both_modes() {
    let gateway = Gateway::start().await;
    check(&gateway, ACCEPTED, false).await;
    check(&gateway, ACCEPTED, true).await;
}

#[tokio::test]
async fn each_broken_rule_is_named_in_strict_mode_and_handled_as_promised_in_default_mode() {
    let gateway = Gateway::start().await;
    check(&gateway, REFUSED, false).await;
    check(&gateway, REFUSED, true).await;
}

#[test]
fn every_document_has_its_row_and_says_what_it_is_for() {
    let rows: BTreeSet<String> = ACCEPTED.iter().chain(REFUSED).map(|row| row.0.to_owned()).collect();
    assert_eq!(rows, listed(&folder(), ["accepted", "refused"]));
    for name in rows {
        let text = std::fs::read_to_string(folder().join(&name)).expect("it is read");
        let document: Value = serde_json::from_str(&text).expect("it is JSON");
        assert!(document["_says"].is_string(), "{name}");
    }
}
