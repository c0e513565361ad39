//! Imports of files that grow, are rotated or truncated, and to a server that fails midway.

use crate::stub_server::{Stub, ok, response};
use crate::terminal::{CommandOutput, Terminal};
use schemas::identity::OrgType;
use schemas::secrets::PlainApiKey;
use service_kit::testing::eventually;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Returns a terminal with the stub's address and a new key.
fn terminal_for(stub: &Stub) -> Terminal {
    Terminal::new().with("TELEMETRY_URL", &stub.url).with("TELEMETRY_KEY", PlainApiKey::generate(OrgType::ContentOwner).reveal())
}

fn import(terminal: &Terminal, file: &Path, more: &[&str]) -> CommandOutput {
    terminal.run(&[&["import", file.to_str().unwrap(), "--provider", "combined", "-o", "json"], more].concat())
}

fn append(file: &Path, text: &str) {
    OpenOptions::new().append(true).open(file).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn each_key_imports_the_whole_file() {
    let stub = Stub::start(|_, _| ok("{}"));
    let terminal = terminal_for(&stub);
    let file = terminal.file("access.log", "a\nb\nc\n");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 3);
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 0);
    let other = terminal.file("other.key", PlainApiKey::generate(OrgType::ContentOwner).reveal());
    assert_eq!(import(&terminal, &file, &["--key-file", other.to_str().unwrap()]).json()["lines"], 3);
    let names: Vec<_> = std::fs::read_dir(terminal.home().join(".config/telemetry/imports")).unwrap().collect();
    assert_eq!(names.len(), 2, "each key has its own state");
}

#[test]
fn saved_offset_does_not_apply_to_a_replaced_file() {
    let terminal = Terminal::new();
    let file = terminal.file("access.log", "old 1\nold 2\n");
    let log = file.clone();
    let stub = Stub::start(move |n, _| {
        if n == 0 {
            std::fs::rename(&log, log.with_extension("log.1")).unwrap();
            std::fs::write(&log, "new 1\nnew 2\nnew 3\n").unwrap();
        }
        ok("{}")
    });
    let key = PlainApiKey::generate(OrgType::ContentOwner);
    let terminal = terminal.with("TELEMETRY_URL", &stub.url).with("TELEMETRY_KEY", key.reveal());
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 2);
    assert_eq!(stub.bodies(), "old 1\nold 2\n");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 3);
    assert_eq!(stub.bodies(), "new 1\nnew 2\nnew 3\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_a_replaced_file_until_its_writers_are_quiet() {
    let stub = Stub::start(|_, _| ok("{}"));
    let terminal = terminal_for(&stub);
    let (file, old) = (terminal.file("access.log", "old 1\n"), terminal.home().join("access.log.1"));
    let mut running = terminal.start(&["import", file.to_str().unwrap(), "--provider", "combined", "--follow"]);
    let mut came = String::new();
    let mut until = async |wanted: &str| {
        let came = std::cell::RefCell::new(&mut came);
        eventually(&format!("{wanted:?} is sent"), || async {
            came.borrow_mut().push_str(&stub.bodies());
            came.borrow().contains(wanted).then_some(())
        })
        .await;
    };
    until("old 1\n").await;
    std::fs::rename(&file, &old).unwrap();
    append(&old, "old 2\n");
    until("old 2\n").await;
    // The name was missing when this line was processed.
    append(&old, "old 3\n");
    until("old 3\n").await;
    terminal.file("access.log", "new 1\n");
    std::thread::sleep(std::time::Duration::from_secs(2));
    append(&old, "old 4\nhalf");
    until("old 4\n").await;
    until("half\nnew 1\n").await;
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn resends_an_incomplete_last_line() {
    let stub = Stub::start(|_, _| ok("{}"));
    let terminal = terminal_for(&stub);
    let file = terminal.file("access.log", "first\nsecond li");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 2);
    assert_eq!(stub.bodies(), "first\nsecond li\n");
    append(&file, "ne\nthird\n");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 2);
    assert_eq!(stub.bodies(), "second line\nthird\n");
}

#[test]
fn errors_after_sending_do_not_exit_as_usage_errors() {
    let stub = Stub::start(|_, _| ok(r#"{"events_created": 1}"#));
    let terminal = terminal_for(&stub);
    let long = "x".repeat(8 * 1024 * 1024 + 1);
    let said = import(&terminal, &terminal.file("long.log", &format!("first\n{long}\n")), &[]);
    assert!(said.code == 1 && said.stderr.contains("everything before byte 6 was sent"), "{said:?}");
    assert_eq!(stub.bodies(), "first\n");
    assert_eq!(import(&terminal, &terminal.file("longer.log", &long), &[]).code, 2);
    assert_eq!(stub.bodies(), "");

    let events = |text: &str| terminal.run(&["events", "import", terminal.file("events", text).to_str().unwrap()]);
    let said = events("{\"id\": \"a\"}\nnonsense\n");
    assert!(said.code == 1 && said.stderr.contains("everything before line 2 was sent"), "{said:?}");
    assert!(stub.bodies().contains("[{\"id\": \"a\"}]"));
    assert_eq!(events("nonsense\n").code, 2);
    assert_eq!(stub.bodies(), "");
}

#[test]
fn retries_truncated_responses() {
    let stub = Stub::start(|n, _| if n == 0 { ok("{}").replace("length: 2", "length: 9") } else { ok("{}") });
    let terminal = terminal_for(&stub);
    assert_eq!(import(&terminal, &terminal.file("access.log", "a\n"), &[]).json()["lines"], 1);
    assert_eq!(stub.bodies(), "a\na\n");
}

#[test]
fn fails_if_retry_after_is_too_long() {
    let stub = Stub::start(move |n, _| {
        let seconds = if n == 0 { 1 } else { u64::MAX };
        format!("HTTP/1.1 503 Away\r\nretry-after: {seconds}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    });
    let terminal = terminal_for(&stub);
    let said = import(&terminal, &terminal.file("access.log", "a\n"), &[]);
    assert!(said.code == 5 && said.stderr.contains("503"), "{said:?}");
}

#[test]
fn imports_named_pipes_like_stdin() {
    let stub = Stub::start(|_, _| ok("{}"));
    let terminal = terminal_for(&stub);
    let pipe = terminal.home().join("log.pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, "a\nb\n").unwrap()
    });
    assert_eq!(import(&terminal, &pipe, &[]).json()["lines"], 2);
    assert_eq!(stub.bodies(), "a\nb\n");
    writer.join().unwrap();
}

#[test]
fn unreadable_batches_do_not_stop_an_import() {
    let stub = Stub::start(|n, _| if n == 0 { response(422, "{}") } else { ok(r#"{"kept":1}"#) });
    let terminal = terminal_for(&stub);
    let file = terminal.file("access.log", &format!("{}good\n", "bad\n".repeat(5_000)));
    let said = import(&terminal, &file, &[]).json();
    assert_eq!((&said["bad"], &said["kept"]), (&5_000.into(), &1.into()), "{said}");
}

#[test]
fn resumed_imports_send_the_columns_again() {
    let stub = Stub::start(|_, _| ok("{}"));
    let terminal = terminal_for(&stub);
    let file = terminal.file("iis.log", "#Version: 1.0\n#Fields: date time\n2026-11-01 10:00:00\n");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 1);
    assert_eq!(stub.bodies(), "#Version: 1.0\n#Fields: date time\n2026-11-01 10:00:00\n");
    append(&file, "2026-11-01 10:00:01\n");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 1);
    assert_eq!(stub.bodies(), "#Fields: date time\n2026-11-01 10:00:01\n");
}
