//! Each test makes one change to a small month's documents. Both programs find that change and no other.

use crate::files::{Files, manifest_entry, sha256};
use crate::model::statements;
use crate::months::{CLOSED_MS, HOUR_MS, Month, SINCE_MS, UNTIL_MS};
use serde_json::{Value, json};

const PAGE: &str = r#""example.com","https://example.com/a","""#;
const FORM: &str = "must have the documented members and values, in canonical form";

fn report(n: u64, role: &str, at_ms: i64, more: &Value) -> Value {
    let mut report = json!({
        "row": "report", "accepted_us": at_ms * 1_000 + 5, "at_ms": at_ms, "bot": "", "click": false, "content_id": "", "drain": "",
        "group": null, "host": "example.com", "identity": format!("{n:032x}"), "license": "", "operator": "", "organization": role,
        "owner": role == "edge", "place": 0, "response": null, "role": role, "session": null, "signature": "none", "status": null,
        "type": "content_retrieved", "url": "https://example.com/a",
    });
    report.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    report
}

/// Returns a fetch with two observers, the agent's second report, a citation, a log line and an hour; then a late report of the fetch.
fn month() -> Month {
    let group = format!("{:032x}", 9);
    let at_ms = SINCE_MS + 100 * HOUR_MS;
    let (session, response) = (format!("{:016x}", 1), format!("{:016x}", 2));
    let mut log_line = report(5, "edge", at_ms, &json!({"row": "line", "bot": "GPTBot", "status": 404}));
    for member in "click content_id drain group license organization owner response role session signature type".split(' ') {
        log_line.as_object_mut().unwrap().remove(member);
    }
    let late_us = CLOSED_MS[0] * 1_000;
    let accepted = vec![
        report(1, "agent", at_ms, &json!({"group": group, "session": session, "signature": "valid"})),
        report(2, "agent", at_ms + 1, &json!({"group": group})),
        report(3, "agent", at_ms, &json!({"type": "content_cited", "session": session, "response": response})),
        log_line,
        report(6, "edge", at_ms, &json!({"group": group, "status": 200, "accepted_us": late_us, "bot": "GPTBot"})),
        report(7, "origin", UNTIL_MS - 1, &json!({"accepted_us": late_us, "owner": true, "status": 503})),
    ];
    let hours = vec![json!({"row": "hour", "at_ms": at_ms, "host": "example.com"})];
    Month { by: "url", operator: Value::Null, accepted, hours }
}

#[track_caller]
fn check(name: &str, change: impl FnOnce(&mut Files), expected: &[&str]) {
    let [_, mut files] = statements(&month());
    change(&mut files);
    check_text(name, &files, &files.statement.to_string(), expected);
}

#[track_caller]
fn check_text(name: &str, files: &Files, statement: &str, expected: &[&str]) {
    let found = files.verify_text(statement);
    assert_eq!(found.differences, expected, "{name}");
    files.assert_python_agrees(statement, name, &found);
}

/// Replaces the first occurrence in the evidence.
fn replace(files: &mut Files, from: &str, to: &str) {
    assert!(files.evidence.contains(from), "{from}");
    files.evidence = files.evidence.replacen(from, to, 1);
}

fn rows(files: &Files) -> Vec<String> {
    files.evidence.split_inclusive('\n').map(str::to_owned).collect()
}

#[test]
fn late_report_creates_a_revision_with_the_difference() {
    let [first, second] = statements(&month());
    let fetches = |files: &Files| files.statement["lines"][0]["events"]["fetch"].clone();
    assert_eq!(fetches(&first), json!({"claimed": 2, "corroborated": 0, "observed": 0, "unknown": 0, "signed": 1}));
    assert_eq!(fetches(&second), json!({"claimed": 1, "corroborated": 1, "observed": 0, "unknown": 0, "signed": 1}));
    let corrections = &second.statement["corrections"];
    assert_eq!((&corrections["late_reports"], &corrections["other_reports"]), (&json!(2), &json!(0)));
    assert_eq!(corrections["changes"].as_array().unwrap().len(), 3);
    let found = second.verify();
    assert!(found.is_ok() && found.checks.last().is_some_and(|check| check == "verified: corrections"), "{found}");
    second.assert_python_agrees(&second.statement.to_string(), "revision", &found);
}

/// `WRITE_GOLDEN=1` writes the files, which docs/api/statements.md and the golden output of the command line use.
#[test]
fn example_files_match_the_second_revision() {
    let [_, files] = statements(&month());
    let contents = [
        ("statement.json", files.statement.to_string()),
        ("evidence.ndjson", files.evidence),
        ("previous.json", files.earlier[0].clone()),
        ("manifest.json", files.manifest.to_string()),
    ];
    for (name, text) in contents {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/example/").to_owned() + name;
        if std::env::var_os("WRITE_GOLDEN").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "{path}");
    }
}

#[test]
fn finds_changed_figures() {
    let figure = format!("line [{PAGE},\"events.citation.claimed\"]: is 2, must be 1");
    let change = format!("change [{PAGE},\"events.citation.claimed\"]: is missing, must be [1,2]");
    let altered = |files: &mut Files| files.statement["lines"][0]["events"]["citation"]["claimed"] = json!(2);
    let unsigned = "signature: key key-2026 did not sign this statement";
    check("digit", altered, &[unsigned, &figure, &change]);
    let sign = |change: fn(&mut Files)| {
        move |files: &mut Files| {
            change(files);
            files.sign();
        }
    };
    check(
        "signed-digit",
        sign(|files| files.statement["lines"][0]["events"]["citation"]["claimed"] = json!(2)),
        &[&figure, &change],
    );
    let total = r#"total ["counter.Total_AI_Requests"]: is 3, must be 2"#;
    check("total", sign(|files| files.statement["totals"]["counter"]["Total_AI_Requests"] = json!(3)), &[total]);
    let zero = format!("line [{PAGE},\"sessions\"]: is 0, must be 1");
    let sessions = format!("change [{PAGE},\"sessions\"]: is missing, must be [1,0]");
    check("sessions", sign(|files| files.statement["lines"][0]["sessions"] = json!(0)), &[&zero, &sessions]);
    let order = "lines: must be sorted, each once";
    let twice = sign(|files| {
        let line = files.statement["lines"][0].clone();
        files.statement["lines"].as_array_mut().unwrap().push(line);
    });
    check("line-twice", twice, &[order]);
}

#[test]
fn finds_changed_evidence() {
    let digest = |files: &Files| {
        let (is, must) = (&files.statement["evidence"]["sha256"], sha256(&files.evidence));
        format!("evidence [\"sha256\"]: is {is}, must be \"{must}\"")
    };
    let [_, original] = statements(&month());
    let mut files = original.clone();
    let mut left = rows(&files);
    // The citation.
    left.remove(1);
    files.evidence = left.concat();
    let text = files.statement.to_string();
    let found = files.verify();
    assert_eq!(found.differences[..2], [r#"evidence ["reports"]: is 6, must be 5"#.to_owned(), digest(&files)], "{found}");
    let figures: Vec<&str> = found.differences[2..].iter().filter_map(|text| text.split('"').rev().nth(1)).collect();
    let citation = ["claimed", "corroborated", "observed", "signed", "unknown"].map(|tier| format!("events.citation.{tier}"));
    let counter =
        ["AI_Responses_Generated", "Total_AI_Investigations", "Unique_AI_Investigations"].map(|name| format!("counter.{name}"));
    let expected = [&counter[..], &citation].concat();
    assert_eq!(figures, [expected.clone(), expected].concat(), "{found}");
    files.assert_python_agrees(&text, "row-removed", &found);

    for (name, order) in [("row-twice", [0, 1, 1, 2, 3, 4, 5, 6]), ("row-order", [0, 2, 1, 1, 3, 4, 5, 6])] {
        let mut files = original.clone();
        files.evidence = order.iter().map(|n| rows(&original)[*n].clone()).collect();
        let wrong = "evidence row 3: must be sorted after the row before it";
        check_text(name, &files, &files.statement.to_string(), &[&digest(&files), wrong]);
        files.name_evidence_and_sign();
        check_text(&format!("{name}-signed"), &files, &files.statement.to_string(), &[wrong]);
    }
}

#[test]
fn finds_invalid_rows() {
    let row = |number: u8, text: &str| format!("evidence row {number}: {text}");
    let cases: [(&str, &str, &str, String); 12] = [
        ("member", r#""row":"report""#, r#""row":"report","ruw":"""#, row(2, FORM)),
        ("space", r#""row":"report""#, r#""row": "report""#, row(2, FORM)),
        ("fraction", r#""place":0"#, r#""place":0.0"#, row(2, FORM)),
        ("number", r#""place":0"#, r#""place":9007199254740992"#, row(2, FORM)),
        ("role", r#""role":"agent""#, r#""role":"agents""#, row(2, FORM)),
        ("digest", r#""session":"0"#, r#""session":"A"#, row(2, FORM)),
        ("status", r#""status":404"#, r#""status":204"#, row(3, FORM)),
        ("minutes", r#""row":"hour""#, r#""row":"hours""#, row(1, FORM)),
        (
            "host",
            r#""host":"example.com","identity""#,
            r#""host":"example.net","identity""#,
            row(2, "has a host that the statement does not have"),
        ),
        (
            "hour",
            &format!(r#""at_ms":{}"#, SINCE_MS + 100 * HOUR_MS),
            &format!(r#""at_ms":{UNTIL_MS}"#),
            row(1, "is outside the period"),
        ),
        (
            "closed",
            r#""accepted_us":1793664000000000"#,
            r#""accepted_us":1793836800000000"#,
            row(4, "was accepted after the statement was closed"),
        ),
        (
            "outside",
            &format!(r#""at_ms":{}"#, UNTIL_MS - 1),
            &format!(r#""at_ms":{UNTIL_MS}"#),
            row(4, "its group has no event of the statement"),
        ),
    ];
    for (name, from, to, expected) in cases {
        let change = |files: &mut Files| {
            replace(files, from, to);
            files.name_evidence_and_sign();
        };
        check(&format!("row-{name}"), change, &[&expected]);
    }
    let shared = |from: &'static str, to: &'static str| {
        move |files: &mut Files| {
            let mut rows = rows(files);
            rows[5] = rows[5].replace(from, to);
            files.evidence = rows.concat();
            files.name_evidence_and_sign();
        }
    };
    check(
        "row-group",
        shared(r#""host":"example.com""#, r#""host":"www.example.com""#),
        &[&row(6, "has another host than its group")],
    );
    let (second, first) = ("00000000000000000000000000000002", "00000000000000000000000000000001");
    check("row-copy", shared(second, first), &[&row(6, "repeats a report")]);
}

#[test]
fn rejects_other_keys() {
    let wrong = |text: &str| format!("signature: {text}");
    let [_, files] = statements(&month());
    let other = json!({"keys": [manifest_entry("key-2026", [8; 32])]});
    check("key", |files| files.manifest = other, &[&wrong("key key-2026 did not sign this statement")]);
    let missing = wrong("the manifest is invalid or has no key key-2026");
    check("no-key", |files| files.manifest = json!({"keys": []}), &[&missing]);
    check("twice", |files| files.manifest["keys"] = json!([files.manifest["keys"][1], files.manifest["keys"][1]]), &[&missing]);
    let expires = |time: &'static str| move |files: &mut Files| files.manifest["keys"][1]["expires"] = json!(time);
    check("expired", expires("2026-11-05T00:00:00Z"), &[&wrong("key key-2026 expired before the statement was closed")]);
    check("expires", expires("2026-11-05T01:00:01+01:00"), &[]);
    let weak = json!({"id": "weak", "type": "Ed25519", "publicKey": "z6MkeXATEjyXENzBXBxgC5EHk2JE5aqd7qMGGtDpLUH1e2Sj"});
    check("weak", |files| files.manifest["keys"][0] = weak, &[&missing]);
    for (n, (member, value)) in
        [("id", "ü"), ("id", ""), ("type", "RSA"), ("expires", ""), ("expires", "2027-01-01"), ("publicKey", "z")]
            .iter()
            .enumerate()
    {
        check(&format!("manifest-{n}"), |files| files.manifest["keys"][0][*member] = json!(value), &[&missing]);
    }
    // The same signature plus the group order, which a lax verifier accepts.
    let mut malleable = data_encoding::BASE64.decode(files.statement["signature"]["value"].as_str().unwrap().as_bytes()).unwrap();
    let order = data_encoding::HEXLOWER.decode(b"edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").unwrap();
    let mut carry = 0;
    for (byte, more) in malleable[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(more) + carry;
        (*byte, carry) = (sum.to_le_bytes()[0], sum >> 8);
    }
    let malleable = data_encoding::BASE64.encode(&malleable);
    let change = |files: &mut Files| files.statement["signature"]["value"] = json!(malleable);
    check("malleable", change, &[&wrong("key key-2026 did not sign this statement")]);
    let earlier: Value = serde_json::from_str(&files.earlier[0]).unwrap();
    let swap = |files: &mut Files| files.statement["signature"] = earlier["signature"].clone();
    check("swapped", swap, &[&wrong("key key-2026 did not sign this statement")]);
    let zero = |files: &mut Files| files.statement["signature"]["value"] = json!("");
    check("empty", zero, &[&wrong("key key-2026 did not sign this statement")]);
}

#[test]
fn finds_a_wrong_chain_and_wrong_corrections() {
    let [_, original] = statements(&month());
    let hash = sha256(&original.earlier[0]);
    let zeros = "0".repeat(64);
    let check = |name: &str, change: &dyn Fn(&mut Value), expected: &[&str]| {
        let mut files = original.clone();
        change(&mut files.statement);
        files.sign();
        check_text(name, &files, &files.statement.to_string(), expected);
    };
    let unknown = format!("chain: the statement names no earlier one with SHA-256 {hash}");
    check(
        "previous",
        &|one| {
            one["previous"] = json!(zeros);
            one["corrections"]["revises"] = json!(zeros);
        },
        &[&unknown],
    );
    check("number", &|one| one["number"] = json!(3), &[r#"chain ["number"]: is 3, must be 2"#]);
    check("revision", &|one| one["revision"] = json!(4), &[r#"revised ["revision"]: is 4, must be 2"#]);
    check(
        "owner",
        &|one| one["owner"]["id"] = json!("o2"),
        &[r#"chain ["owner"]: is "o2", must be "o1""#, r#"revised ["owner"]: is "o2", must be "o1""#],
    );
    check("late", &|one| one["corrections"]["late_reports"] = json!(1), &[r#"corrections ["late_reports"]: is 1, must be 2"#]);
    check(
        "other",
        &|one| one["corrections"]["other_reports"] = json!(-1),
        &[r#"corrections ["other_reports"]: is -1, must be 0"#],
    );
    let place = |change: &Value| json!([change["host"], change["content"], change["license"], change["figure"]]).to_string();
    let first = &original.statement["corrections"]["changes"][0];
    let (before, after) = (&first["before"], first["after"].as_i64().unwrap());
    let wrong = format!("change {}: is [{before},{}], must be [{before},{after}]", place(first), after + 1);
    check("change", &|one| one["corrections"]["changes"][0]["after"] = json!(after + 1), &[&wrong]);
    let missing = format!("change {}: is missing, must be [{before},{after}]", place(first));
    let remove = |one: &mut Value| {
        one["corrections"]["changes"].as_array_mut().unwrap().remove(0);
    };
    check("no-change", &remove, &[&missing]);
    check(
        "change-order",
        &|one| one["corrections"]["changes"].as_array_mut().unwrap().reverse(),
        &["changes: must be sorted, each once"],
    );
}

#[test]
fn finds_invalid_statements() {
    let [_, files] = statements(&month());
    let text = files.statement.to_string();
    let expected = format!("statement: {FORM}");
    let replaced = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    };
    for (name, changed) in [
        ("space", replaced(":", ": ")),
        ("end", format!("{text}\n")),
        ("member", replaced(r#""by":"#, r#""bx":0,"by":"#)),
        ("member-of-line", replaced(r#""content":"https"#, r#""contend":"","content":"https"#)),
        ("repeated", replaced(r#""by":"url""#, r#""by":"url","by":"url""#)),
        ("escape", replaced("Example News", r"\u0045xample News")),
        ("boolean", replaced(r#""claimed":1"#, r#""claimed":true"#)),
        ("fraction", replaced(r#""claimed":1"#, r#""claimed":1.0"#)),
        ("large", replaced(r#""hours":744"#, r#""hours":9007199254740992"#)),
        ("version", replaced(r#""version":1"#, r#""version":2"#)),
        ("month", replaced("2026-10\"", "2026-13\"")),
        ("closed", replaced("2026-11-05T00:00:00Z", "2026-10-31T23:59:59Z")),
        ("time", replaced("2026-11-05T00:00:00Z", "2026-11-05T24:00:00Z")),
        ("hosts", replaced(r#"["example.com","#, r#"["example.com","example.com","#)),
        ("first", replaced(r#""number":2"#, r#""number":1"#)),
        ("hash", replaced(r#""revises":""#, r#""revises":"x"#)),
        ("nothing", String::new()),
        ("list", "[]".to_owned()),
        ("depth", "[".repeat(100_000)),
    ] {
        check_text(&format!("statement-{name}"), &files, &changed, &[&expected]);
    }
}
