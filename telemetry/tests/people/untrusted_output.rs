//! Untrusted text in output: characters don't control the terminal, and JSON keeps the values.

use crate::stub_server::{Stub, ok};
use crate::terminal::{CommandOutput, Terminal};
use crate::test_service::Service;
use schemas::identity::OrgType;
use schemas::secrets::PlainApiKey;
use serde_json::{Value, json};

/// ESC, BEL, DEL, NEL, C1 CSI and OSC, and characters that change the reading direction.
const ACTING: [char; 11] =
    ['\u{1b}', '\u{7}', '\u{7f}', '\u{85}', '\u{9b}', '\u{9d}', '\u{202e}', '\u{2066}', '\u{200f}', '\u{61c}', '\u{2028}'];
const ID: &str = "0195f3a0-0000-7000-8000-000000000001";

fn odd() -> String {
    format!("a{}[2Jb", String::from_iter(ACTING))
}

fn stub(response: &Value) -> (Stub, Terminal) {
    let response = response.to_string();
    assert!(response.contains('\u{9b}'), "the service sends these characters as they are");
    let stub = Stub::start(move |_, _| ok(&response));
    let key = PlainApiKey::generate(OrgType::ContentOwner);
    let terminal = Terminal::new().with("TELEMETRY_URL", &stub.url).with("TELEMETRY_KEY", key.reveal());
    (stub, terminal)
}

/// Checks that the output has no such characters, and returns it.
#[track_caller]
fn assert_harmless(said: CommandOutput) -> String {
    let said = said.ok();
    assert!(!said.stdout.contains(ACTING) && !said.stderr.contains(ACTING), "{said:?}");
    said.stdout
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn lists_and_objects_print_no_control_characters() {
    let key =
        json!({"id": ID, "name": odd(), "prefix": "svc_pub_0", "scopes": [odd()], "created_by": {"kind": "user", "name": odd()}});
    let keys = json!([key]);
    let (_stub, terminal) = stub(&keys);
    let printed = |words: &[&str], format: &str| assert_harmless(terminal.run(&[&["key"], words, &["-o", format]].concat()));
    assert_eq!(parsed(&printed(&["list"], "json")), keys);
    assert_eq!(parsed(&printed(&["show", ID], "json")), key);
    for words in [&["list"][..], &["show", ID]] {
        let line = printed(words, "ndjson");
        assert_eq!((parsed(&line), line.lines().count()), (key.clone(), 1));
        for format in ["table", "csv"] {
            assert!(printed(words, format).contains(&format!("a{}[2Jb", "\u{fffd}".repeat(ACTING.len()))));
        }
    }
}

#[test]
fn passed_through_responses_print_no_control_characters() {
    let response = json!({"items": [{"event_id": odd(), "content_url": odd()}], "total": 1, "name": odd()});
    let (_stub, terminal) = stub(&response);
    for words in [&["events", "list", "-o", "json"][..], &["events", "list", "-o", "ndjson"], &["summary", "-o", "json"]] {
        assert_eq!(parsed(&assert_harmless(terminal.run(words))), response, "{words:?}");
    }
    assert_eq!(parsed(&assert_harmless(terminal.run(&["session", "document", ID]))), response);
    assert_harmless(terminal.run(&["events", "list"]));
    let line = assert_harmless(terminal.run(&["events", "tail", "--count", "1", "-o", "ndjson"]));
    assert_eq!(parsed(&line), response["items"][0]);
    assert_harmless(terminal.run(&["events", "tail", "--count", "1"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_commands_print_no_control_characters() {
    let service = Service::start().await;
    // The API rejects such a name, but an earlier import may have stored one.
    let stored = "UPDATE organizations SET name = $1 WHERE id = $2::uuid";
    let owner = service.value("OWNER_ORG_ID");
    sqlx::query(stored).bind(odd()).bind(owner).execute(&service.stores.pool).await.unwrap();
    let terminal = service.operators_terminal();
    let show = ["identity-api", "admin", "organization", "show", owner];
    let found = parsed(&assert_harmless(terminal.run(&[&show[..], &["-o", "json"]].concat())));
    assert_eq!(found["name"], odd());
    assert!(assert_harmless(terminal.run(&show)).contains('\u{fffd}'));
}
