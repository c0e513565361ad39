//! Our own documents (`tests/documents`), one for each rule that the public suite covers, in default and strict mode. If `FIXTURES_DIR` is
//! set, tests the public suite's documents too (K6).

use crate::harness::{Gateway, TestApp};
use schemas::identity::OrgType;
use schemas::secrets::PlainClickToken;
use serde_json::{Value, json};
use service_kit::testing::{SeededOrg, send_request};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Placeholder for one of the reporter's click tokens.
const PLACE_OF_TOKEN: &str = "{token}";
const PUBLIC_SUITE: &str = "FIXTURES_DIR";

#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// 201 with this many events.
    Created(usize),
    /// 422 with exactly these faults, as `index.field:code`.
    Refused(&'static [&'static str]),
}
use Outcome::{Created, Refused};

/// The expected outcome for one of our documents and the corresponding public document.
struct Row {
    own: &'static str,
    public: &'static str,
    default: Outcome,
    strict: Outcome,
}

/// Our document, the public one, and the number of events that both modes accept.
const ACCEPTED: [(&str, &str, usize); 15] = [
    ("batch-of-an-agent", "event-batch-agent", 4),
    ("batch-of-clicks-by-token", "event-batch-destination-engagements", 2),
    ("batch-of-groundings", "event-batch-grounding-provenance", 2),
    ("event-of-a-child-session", "event-standalone-child-session", 1),
    ("event-of-a-click-by-token", "event-standalone-engaged-ctx-token", 1),
    ("event-of-a-redirected-click", "event-standalone-engaged-redirect", 1),
    ("event-of-an-agent", "event-standalone-agent", 1),
    ("event-of-an-index", "event-standalone-index", 1),
    ("event-of-an-origin", "event-standalone-origin", 1),
    // Contains other issuers' tokens, which are unknown here.
    ("session-clicked-in-a-later-turn", "session-earlier-turn-click", 5),
    ("session-of-a-turn-at-summary", "turn-privacy-summary", 1),
    ("session-of-other-engagements", "session-engagement-types", 9),
    ("session-that-contradicts", "session-citation-contradiction", 6),
    ("session-with-a-link-shown-twice", "session-repeated-link-engagement", 5),
    ("session-with-evidence", "session-evidence-reference", 1),
];

/// Our document, the public one, the outcome in default mode, and the faults in strict mode.
const REFUSED: [(&str, &str, Outcome, &[&str]); 17] = [
    // The address hash is removed.
    ("batch-address-hash", "withdrawn-ip-hash-batch", Created(1), &["0.data.ip_hash:withdrawn"]),
    // A token may be any string. This one was never issued.
    (
        "batch-by-a-token-of-no-shape",
        "batch-ctx-token-bad-pattern",
        Refused(&["0.ctx_token:unknown_token"]),
        &["ctx_token:bad_token", "0.ctx_token:unknown_token"],
    ),
    // The token binds the engagement. The grounding has no session.
    (
        "batch-by-a-token-with-a-grounding",
        "batch-ctx-token-non-engagement",
        Refused(&["0.session_id:required"]),
        &["ctx_token:not_allowed", "0.session_id:required"],
    ),
    ("batch-engaged-without-presentation", "batch-engaged-missing-presentation-id", Created(1), &["0.presentation_id:required"]),
    (
        "batch-grounding-of-nothing",
        "grounded-missing-identifier-batch",
        Refused(&["0.content_url:required"]),
        &["0.content_url:required"],
    ),
    // Members above the level are removed.
    ("batch-text-at-minimal", "privacy-violation-query-at-minimal-batch", Created(1), &["0.turn.query_text:privacy_violation"]),
    (
        "batch-without-a-session",
        "batch-missing-session-mixed-retrieval",
        Refused(&["0.session_id:required", "1.session_id:required"]),
        &["session_id:required", "0.session_id:required", "1.session_id:required"],
    ),
    (
        "event-by-a-token-that-is-a-grounding",
        "standalone-ctx-token-non-engagement",
        Refused(&["0.session_id:required"]),
        &["ctx_token:not_allowed", "0.session_id:required"],
    ),
    (
        "event-of-a-session-that-is-no-uuid",
        "standalone-malformed-session-id",
        Refused(&["session_id:bad_uuid"]),
        &["session_id:bad_uuid"],
    ),
    // Stored as `unclassified`.
    ("session-citation-of-no-class", "citation-type-invalid", Created(1), &["0.data.citation_type:unknown_value"]),
    (
        "session-engaged-with-nothing",
        "engaged-missing-identifier",
        Refused(&["1.content_url:required"]),
        &["1.content_url:required"],
    ),
    // Any string is accepted as an id.
    ("session-id-of-an-event-is-no-uuid", "malformed-event-id", Created(1), &["0.id:bad_uuid"]),
    ("session-of-version-0-1", "legacy-schema-version-0-1", Created(1), &["schema_version:unknown_value"]),
    ("session-one-token-two-presentations", "shared-ctx-token-two-presentations", Created(4), &["3.ctx_token:shared"]),
    // In a session document, a fetch has a session, so its role may be missing.
    ("session-retrieval-by-nobody", "retrieved-missing-source-role", Created(1), &["0.source_role:required"]),
    // The token is stored as its hash.
    ("session-token-on-a-grounding", "ctx-token-on-grounded", Created(1), &["0.ctx_token:not_allowed"]),
    // A repeated event is accepted and has no effect.
    ("session-two-events-of-one-id", "duplicate-event-id", Created(3), &["1.id:duplicate"]),
];

fn rows() -> impl Iterator<Item = Row> {
    let accepted = ACCEPTED.map(|(own, public, count)| Row { own, public, default: Created(count), strict: Created(count) });
    let refused = REFUSED.map(|(own, public, default, strict)| Row { own, public, default, strict: Refused(strict) });
    accepted.into_iter().chain(refused)
}

impl Row {
    /// Paths of our document and the public one, relative to their folders.
    fn files(&self) -> [String; 2] {
        let [own, public] = if matches!(self.strict, Created(_)) { ["accepted", "valid"] } else { ["refused", "invalid"] };
        [format!("{own}/{}.json", self.own), format!("{public}/{}.json", self.public)]
    }

    /// Sends a document as a new agent, and describes an unexpected response.
    async fn check(&self, gateway: &TestApp, file: &Path, is_strict: bool) -> Option<String> {
        let org = gateway.seed().org(self.own, OrgType::Agent).await;
        if is_strict {
            gateway.seed().make_strict(org.id).await;
        }
        let text = with_known_token(gateway, &org, read(file)).await;
        let path = if self.own.starts_with("session") { "/sessions/bulk" } else { "/events" };
        let answer = send_request(gateway.post_request(path, &org.key).body(text)).await;
        let expected = if is_strict { self.strict } else { self.default };
        let is_met = match expected {
            Created(count) => answer.status == 201 && answer.body["events_created"] == count,
            Refused(expected) => answer.status == 422 && answer.faults() == expected,
        };
        let name = file.display();
        (!is_met).then(|| format!("{name}, strict {is_strict}: expected {expected:?}, got {} {}", answer.status, answer.body))
    }
}

fn read(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Returns the document with one of the reporter's click tokens: fills in the placeholder, or registers the public document's token.
async fn with_known_token(gateway: &TestApp, org: &SeededOrg, text: String) -> String {
    let document: Value = serde_json::from_str(&text).expect("a document is JSON");
    let Some(token) = document["ctx_token"].as_str() else { return text };
    if !text.contains(PLACE_OF_TOKEN) && !token.starts_with("ct") {
        return text;
    }
    let session = gateway.start_session(&org.key, &json!({})).await;
    let own = gateway.create_token(&org.key, &session, "https://tide-tables.example/harbours/leeward").await;
    if text.contains(PLACE_OF_TOKEN) {
        return text.replace(PLACE_OF_TOKEN, &own);
    }
    let hashes = [token, own.as_str()].map(|token| PlainClickToken::presented(token).hash().as_bytes().to_vec());
    for statement in [
        "DELETE FROM click_tokens WHERE token_hash = $1 AND token_hash <> $2",
        "UPDATE click_tokens SET token_hash = $1 WHERE token_hash = $2",
    ] {
        let known = sqlx::query(statement).bind(&hashes[0]).bind(&hashes[1]).execute(&gateway.stores.pool).await;
        known.expect("the token is made known");
    }
    text
}

fn listed(folder: &Path, kinds: [&str; 2]) -> BTreeSet<String> {
    let of = |kind: &str| {
        let entries = std::fs::read_dir(folder.join(kind)).expect("the documents can be listed");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry is read").file_name();
        entries.map(|entry| format!("{kind}/{}", name(entry).to_string_lossy())).collect::<Vec<_>>()
    };
    kinds.into_iter().flat_map(of).collect()
}

/// Checks a folder's documents. `place` selects our files or the public ones in a row.
async fn check_all(folder: &Path, kinds: [&str; 2], place: usize) {
    assert_eq!(rows().map(|row| row.files()[place].clone()).collect::<BTreeSet<_>>(), listed(folder, kinds));
    let gateway = Gateway::start().await;
    let mut wrong = Vec::new();
    for is_strict in [false, true] {
        for row in rows() {
            wrong.extend(row.check(&gateway, &folder.join(&row.files()[place]), is_strict).await);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn our_fixtures_have_the_expected_outcome() {
    check_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents"), ["accepted", "refused"], 0).await;
}

/// Skipped unless `FIXTURES_DIR` is set.
#[tokio::test]
async fn public_fixtures_have_the_expected_outcome() {
    if let Some(folder) = std::env::var_os(PUBLIC_SUITE).map(PathBuf::from) {
        check_all(&folder, ["valid", "invalid"], 1).await;
    }
}
