//! The JavaScript and Python clients of `infra/clients`, unchanged, against the running service: refused, cut off and repeated, every
//! event counts once, and what breaks a rule holds nothing else up.

use crate::demo::Demo;
use serde_json::Value;
use service_kit::testing::{eventually, npm_package};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The faulty proxy, killed when it is dropped.
struct Proxy(Child, String);

impl Proxy {
    fn before(service: &str) -> Self {
        let mut node = Command::new("node");
        node.arg(tests("faulty-proxy.mjs")).env("BASE_URL", service).stdout(Stdio::piped());
        let mut process = node.spawn().expect("this test needs Node.js 20 or later");
        let mut address = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut address).expect("the proxy prints its address");
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
        .expect("the client is in the repository")
}

/// Runs a script with a client and holds what the owner reads to what the script says it reported.
async fn drive(program: &str, script: &str, language: &str) {
    let demo = Demo::start().await;
    let proxy = Proxy::before(demo.env("BASE_URL"));
    let mut command = Command::new(program);
    command.arg(tests(script)).env("CLIENT", client(language)).env("PROXY", &proxy.1);
    command.env("AGENT_KEY", demo.env("AGENT_KEY")).env("OWNER_KEY", demo.env("OWNER_KEY"));
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap();
    let output = output.unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let reported: Value = serde_json::from_slice(&output.stdout).expect("the script reports in JSON");

    let counted = reported["counted"].as_object().expect("the script counts by type");
    demo.counts(counted.values().filter_map(Value::as_u64).sum()).await;
    let summary = eventually("every session is counted", || async {
        let summary = demo.get(demo.env("OWNER_KEY"), "/content-owners/summary").await.body;
        (summary["total_sessions"] == reported["sessions"]).then_some(summary)
    })
    .await;
    for entry in summary["events_by_type"].as_array().expect("the summary lists types") {
        let kind = entry["event_type"].as_str().expect("a type is a text");
        assert_eq!(counted.get(kind), Some(&entry["count"]), "{kind}: {summary}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_javascript_client_reports_every_event_once_through_a_faulty_network() {
    drive("node", "drive.mjs", "javascript").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_reports_every_event_once_through_a_faulty_network() {
    drive("python3", "drive.py", "python").await;
}

#[test]
fn the_javascript_clients_types_take_what_is_right_and_refuse_what_is_wrong() {
    let compiler = npm_package("typescript", "7.0.2", env!("CARGO_TARGET_TMPDIR").as_ref());
    let folder = tempfile::tempdir().unwrap();
    let source = std::fs::read_to_string(tests("types.mts")).unwrap();
    let file = folder.path().join("types.mts");
    std::fs::write(&file, source.replace("CLIENT", client("javascript").to_str().unwrap())).unwrap();
    let mut node = Command::new("node");
    node.arg(compiler.join("node_modules/typescript/bin/tsc")).args(["--noEmit", "--strict", "--target", "es2022"]);
    node.args(["--module", "nodenext", "--lib", "es2022,dom", "--types", ""]).arg(&file);
    let output = node.output().expect("this test needs Node.js 20 or later");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
