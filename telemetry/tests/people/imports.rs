//! Files that are taken in while they grow, are rotated, are cut, or go to a server that fails half-way.

use crate::stub::{Stub, answer, ok};
use crate::terminal::{Said, Terminal};
use schemas::identity::OrgType;
use schemas::secrets::PlainApiKey;
use service_kit::testing::eventually;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// A terminal that asks this server by a key of its own.
fn asking(stub: &Stub) -> Terminal {
    Terminal::new().with("TELEMETRY_URL", &stub.url).with("TELEMETRY_KEY", PlainApiKey::mint(OrgType::ContentOwner).reveal())
}

fn import(terminal: &Terminal, file: &Path, more: &[&str]) -> Said {
    terminal.run(&[&["import", file.to_str().unwrap(), "--provider", "combined", "-o", "json"], more].concat())
}

fn append(file: &Path, text: &str) {
    OpenOptions::new().append(true).open(file).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn what_one_key_brought_in_another_still_brings() {
    let stub = Stub::start(|_, _| ok("{}"));
    let terminal = asking(&stub);
    let file = terminal.file("access.log", "a\nb\nc\n");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 3);
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 0);
    let other = terminal.file("other.key", PlainApiKey::mint(OrgType::ContentOwner).reveal());
    assert_eq!(import(&terminal, &file, &["--key-file", other.to_str().unwrap()]).json()["lines"], 3);
    let names: Vec<_> = std::fs::read_dir(terminal.home().join(".config/telemetry/imports")).unwrap().collect();
    assert_eq!(names.len(), 2, "each has its own state");
}

#[test]
fn a_place_in_a_file_is_not_kept_for_the_file_that_has_its_name_by_now() {
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
    let key = PlainApiKey::mint(OrgType::ContentOwner);
    let terminal = terminal.with("TELEMETRY_URL", &stub.url).with("TELEMETRY_KEY", key.reveal());
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 2);
    assert_eq!(stub.bodies(), "old 1\nold 2\n");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 3);
    assert_eq!(stub.bodies(), "new 1\nnew 2\nnew 3\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_file_is_read_until_its_writers_are_quiet_and_its_name_may_be_gone_meanwhile() {
    let stub = Stub::start(|_, _| ok("{}"));
    let terminal = asking(&stub);
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
    // the name stood for nothing when this was noted
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
fn a_line_without_its_end_is_sent_and_sent_again_once_it_is_whole() {
    let stub = Stub::start(|_, _| ok("{}"));
    let terminal = asking(&stub);
    let file = terminal.file("access.log", "first\nsecond li");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 2);
    assert_eq!(stub.bodies(), "first\nsecond li\n");
    append(&file, "ne\nthird\n");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 2);
    assert_eq!(stub.bodies(), "second line\nthird\n");
}

#[test]
fn a_fault_that_is_found_after_something_was_sent_is_no_usage_failure() {
    let stub = Stub::start(|_, _| ok(r#"{"events_created": 1}"#));
    let terminal = asking(&stub);
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
fn an_answer_that_is_cut_is_asked_for_again() {
    let stub = Stub::start(|n, _| if n == 0 { ok("{}").replace("length: 2", "length: 9") } else { ok("{}") });
    let terminal = asking(&stub);
    assert_eq!(import(&terminal, &terminal.file("access.log", "a\n"), &[]).json()["lines"], 1);
    assert_eq!(stub.bodies(), "a\na\n");
}

#[test]
fn a_pause_that_nobody_can_wait_for_ends_the_command_in_words() {
    let stub = Stub::start(move |n, _| {
        let seconds = if n == 0 { 1 } else { u64::MAX };
        format!("HTTP/1.1 503 Away\r\nretry-after: {seconds}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    });
    let terminal = asking(&stub);
    let said = import(&terminal, &terminal.file("access.log", "a\n"), &[]);
    assert!(said.code == 5 && said.stderr.contains("503"), "{said:?}");
}

#[test]
fn a_named_pipe_is_imported_like_standard_input() {
    let stub = Stub::start(|_, _| ok("{}"));
    let terminal = asking(&stub);
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
fn a_batch_without_a_readable_line_ends_no_import() {
    let stub = Stub::start(|n, _| if n == 0 { answer(422, "{}") } else { ok(r#"{"kept":1}"#) });
    let terminal = asking(&stub);
    let file = terminal.file("access.log", &format!("{}good\n", "bad\n".repeat(5_000)));
    let said = import(&terminal, &file, &[]).json();
    assert_eq!((&said["bad"], &said["kept"]), (&5_000.into(), &1.into()), "{said}");
}

#[test]
fn an_import_that_goes_on_sends_the_columns_again() {
    let stub = Stub::start(|_, _| ok("{}"));
    let terminal = asking(&stub);
    let file = terminal.file("iis.log", "#Version: 1.0\n#Fields: date time\n2026-11-01 10:00:00\n");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 1);
    assert_eq!(stub.bodies(), "#Version: 1.0\n#Fields: date time\n2026-11-01 10:00:00\n");
    append(&file, "2026-11-01 10:00:01\n");
    assert_eq!(import(&terminal, &file, &[]).json()["lines"], 1);
    assert_eq!(stub.bodies(), "#Fields: date time\n2026-11-01 10:00:01\n");
}
