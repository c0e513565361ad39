//! The JavaScript and Python clients of `infra/clients` against the running service. Every event counts once despite rejections,
//! disconnects and repeats, and an invalid event does not delay valid ones.

use crate::client_packages;
use crate::demo::{Demo, wait_for_events};
use serde_json::Value;
use service_kit::testing::{eventually, npm_package};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The faulty proxy; stops on drop.
struct Proxy(Child, String);

impl Proxy {
    fn before(service: &str) -> Self {
        let mut node = Command::new("node");
        node.arg(tests("faulty-proxy.mjs")).env("BASE_URL", service).stdout(Stdio::piped());
        let mut process = node.spawn().expect("this test needs Node.js 20 or later");
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).expect("the proxy prints no address");
        Self(process, address.trim().to_owned())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn tests(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

fn client(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../infra/clients")
        .join(language)
        .canonicalize()
        .expect("the client is missing")
}

/// Runs a client's script and compares the owner's summary with the events that the script reported.
async fn drive(program: &str, script: &str, language: &str) {
    let demo = Demo::start().await;
    let proxy = Proxy::before(demo.env("BASE_URL"));
    let mut command = Command::new(program);
    command.arg(tests(script)).env("CLIENT", client(language)).env("PROXY", &proxy.1);
    command.env("AGENT_KEY", demo.env("AGENT_KEY")).env("OWNER_KEY", demo.env("OWNER_KEY"));
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let output = output.unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reported: Value = serde_json::from_slice(&output.stdout).expect("the script prints no JSON");

    let counted = reported["counted"].as_object().expect("the script prints no counts");
    wait_for_events(&demo, counted.values().filter_map(Value::as_u64).sum()).await;
    let summary = eventually("every session is counted", || async {
        let summary = demo.get(demo.env("OWNER_KEY"), "/content-owners/summary").await.body;
        (summary["total_sessions"] == reported["sessions"]).then_some(summary)
    })
    .await;
    for entry in summary["events_by_type"].as_array().expect("the summary has no types") {
        let kind = entry["event_type"].as_str().expect("a type is not a string");
        assert_eq!(counted.get(kind), Some(&entry["count"]), "{kind}: {summary}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_client_reports_each_event_once() {
    drive("node", "drive.mjs", "javascript").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_client_reports_each_event_once() {
    drive("python3", "drive.py", "python").await;
}

#[test]
fn javascript_types_match_valid_events_only() {
    let compiler = npm_package("typescript", "7.0.2", env!("CARGO_TARGET_TMPDIR").as_ref());
    let folder = client_packages::javascript();
    let file = folder.path().join("types.mts");
    std::fs::copy(tests("types.mts"), &file).unwrap();
    let mut node = Command::new("node");
    node.arg(compiler.join("node_modules/typescript/bin/tsc")).args(["--noEmit", "--strict", "--target", "es2022"]);
    node.args(["--module", "nodenext", "--lib", "es2022,dom", "--types", ""]).arg(&file);
    let output = node.output().expect("this test needs Node.js 20 or later");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
