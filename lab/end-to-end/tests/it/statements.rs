//! E1: October, reported by an agent and a log drain, is closed and revised with the real program, and both verifiers confirm it.

use crate::demo::{BINARY, Demo, DemoApp, wait_for_events};
use schemas::identity::{OrgType, Scope};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::{Seed, eventually, send_request};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../infra/clients/python/verify_statement.py");
const STATEMENTS: &str = "/content-owners/statements";

/// Returns a fetch of the agent in October.
fn claim(number: u32) -> Value {
    let id = format!("67e55044-10b1-426f-9247-{number:012}");
    json!({"events": [{"type": "content_retrieved", "timestamp": "2026-10-05T10:00:00Z", "source_role": "agent",
        "content_url": format!("https://www.example.com/page/{number}"), "content_telemetry_id": id, "session_id": id}]})
}

/// Returns the line of the owner's server for the same fetch.
fn line(number: u32, status: u16) -> String {
    json!({"timestamp": "2026-10-05T10:00:00Z", "host": "www.example.com", "url": format!("/page/{number}"), "method": "GET",
        "user_agent": "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)", "status": status,
        "content_telemetry_id": format!("67e55044-10b1-426f-9247-{number:012}")})
    .to_string()
}

/// A statement contains the reports that were accepted before the second in which it is closed.
async fn next_second() {
    let second = Clock::System.now().timestamp();
    eventually("the second is over", || async { (Clock::System.now().timestamp() > second).then_some(()) }).await;
}

async fn close(demo: &DemoApp, key: &str) -> Value {
    let closed = demo.post(key, STATEMENTS, &json!({"period": "2026-10"})).await;
    assert!([200, 201].contains(&closed.status), "{closed:?}");
    assert_eq!(closed.body["created"], closed.status == 201);
    closed.body
}

/// Stores a response as a file.
async fn download(demo: &DemoApp, path: &str, name: &str) -> PathBuf {
    let response = demo.client.get(demo.url(path)).header("x-api-key", demo.env("OWNER_KEY")).send().await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    let file = demo.folder().join(name);
    std::fs::write(&file, response.bytes().await.unwrap()).unwrap();
    file
}

fn program(files: &[&Path], manifest: &Path, previous: Option<&Path>, mut command: Command) -> Output {
    command.args(files).arg("--manifest").arg(manifest);
    command.args(previous.into_iter().flat_map(|file| [Path::new("--previous"), file])).output().unwrap()
}

/// Verifies with both programs, which must agree. Returns whether all figures are equal.
fn is_confirmed(files: [&Path; 2], manifest: &Path, previous: Option<&Path>) -> bool {
    let (mut own, mut python) = (Command::new(BINARY), Command::new("python3"));
    own.args(["statement", "verify"]);
    python.arg(PYTHON);
    let [own, python] = [own, python].map(|command| program(&files, manifest, previous, command));
    assert_eq!(String::from_utf8_lossy(&own.stdout), String::from_utf8_lossy(&python.stdout));
    assert_eq!(own.status.success(), python.status.success());
    own.status.success()
}

#[tokio::test(flavor = "multi_thread")]
async fn e1_october_is_closed_verified_and_revised() {
    let demo = Demo::start().await;
    let owner: uuid::Uuid = demo.env("OWNER_ORG_ID").parse().unwrap();
    let key = Seed(&demo.stores.pool)
        .key(schemas::ids::OrgId(owner), OrgType::ContentOwner, &[Scope::IdentityWrite, Scope::TelemetryRead])
        .await;
    for number in 1..=2 {
        assert_eq!(demo.report(demo.env("AGENT_KEY"), &claim(number)).await.status, 201);
    }
    let lines = [line(1, 200), line(3, 200), line(4, 404)].join("\n");
    let request = demo.client.post(demo.url("/drains/ndjson")).header("x-api-key", demo.env("OWNER_KEY"));
    let drained = send_request(request.header("content-type", "text/plain").body(lines)).await;
    assert!((200..300).contains(&drained.status), "{drained:?}");
    wait_for_events(&demo, 3).await;
    next_second().await;

    let one = close(&demo, &key).await;
    let path = |closed: &Value| format!("{STATEMENTS}/{}", closed["id"].as_str().unwrap());
    let statement = download(&demo, &path(&one), "one.json").await;
    let evidence = download(&demo, &format!("{}/evidence", path(&one)), "one.ndjson").await;
    let manifest = download(&demo, "/.well-known/content-telemetry.json", "manifest.json").await;
    assert!(is_confirmed([&statement, &evidence], &manifest, None));
    let document: Value = serde_json::from_slice(&std::fs::read(&statement).unwrap()).unwrap();
    let fetches = &document["totals"]["events"]["fetch"];
    assert_eq!([&fetches["corroborated"], &fetches["claimed"], &fetches["observed"]], [1, 1, 1], "{document}");
    assert_eq!(document["totals"]["events"]["failed_fetch"]["observed"], 1, "{document}");
    let shortened = demo.folder().join("shortened.ndjson");
    let rows = std::fs::read_to_string(&evidence).unwrap();
    std::fs::write(&shortened, rows.lines().skip(1).map(|row| format!("{row}\n")).collect::<String>()).unwrap();
    assert!(!is_confirmed([&statement, &shortened], &manifest, None));

    next_second().await;
    assert_eq!(demo.report(demo.env("AGENT_KEY"), &claim(3)).await.status, 201);
    let two = eventually("the late report is stored", || async {
        let closed = close(&demo, &key).await;
        (closed["revision"] == 2).then_some(closed)
    })
    .await;
    assert_eq!((&two["late_reports"], &two["number"]), (&json!(1), &json!(2)), "{two}");
    let revised = download(&demo, &path(&two), "two.json").await;
    let evidence = download(&demo, &format!("{}/evidence", path(&two)), "two.ndjson").await;
    assert!(is_confirmed([&revised, &evidence], &manifest, Some(&statement)));
    let document: Value = serde_json::from_slice(&std::fs::read(&revised).unwrap()).unwrap();
    let changed = document["corrections"]["changes"].as_array().unwrap().iter();
    let changed: Vec<_> =
        changed.map(|change| (change["figure"].as_str().unwrap(), &change["before"], &change["after"])).collect();
    let (zero, one) = (json!(0), json!(1));
    let expected =
        [("events.fetch.corroborated", &zero, &one), ("events.fetch.observed", &one, &zero), ("sessions", &zero, &one)];
    assert_eq!(changed, expected);
}
