//! Verifies the example and the list of reasons in `docs/api/signatures.md`.

use signatures::content_telemetry::verify;
use signatures::{Reason, Request, Verdict, manifest_keys};

const PAGE: &str = include_str!("../../../../docs/api/signatures.md");
/// 2026-11-01T10:00:00Z, when the example was signed.
const CREATED: i64 = 1_793_527_200;

fn block(language: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).expect("the page has no such block");
    rest.split_once("\n```").expect("the block has no end").0
}

#[test]
fn documented_request_verifies() {
    let (head, body) = block("http").split_once("\n\n").unwrap();
    let mut lines = head.lines();
    let path = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers: Vec<(&str, &str)> = lines.map(|line| line.split_once(": ").unwrap()).collect();
    let host = headers.iter().find(|(name, _)| *name == "Host").unwrap().1;
    let request = Request { method: "POST", target_uri: &format!("https://{host}{path}"), headers: &headers };
    let keys = manifest_keys(block("json").as_bytes()).unwrap();
    for (now, verdict) in [(CREATED, Verdict::Valid), (CREATED + 301, Verdict::Invalid(Reason::Stale))] {
        let checked = verify(&request, body.as_bytes(), &keys, now, |_, _, _| true);
        assert_eq!(checked.verdict, verdict);
        assert_eq!(checked.claim.unwrap().base, block("txt"));
    }
}

#[test]
fn documents_every_reason() {
    let rows: Vec<&str> =
        PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name).collect();
    let reasons: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    // The last reason is the service's own: it couldn't look up the key or the nonce.
    let rows = rows.strip_suffix(&["unchecked"]).expect("the table ends with the service's reason");
    assert!(rows.ends_with(&reasons), "{rows:?}");
}
