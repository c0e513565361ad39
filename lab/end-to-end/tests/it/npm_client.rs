//! K6: calls every function of the published npm client, against the running service.

use crate::demo::{Demo, wait_for_events};
use service_kit::testing::{eventually, npm_package};
use std::path::Path;
use std::process::{Command, Output};

const PACKAGE: &str = "@openattribution/telemetry";
const VERSION: &str = "0.1.3";

fn run(command: &mut Command, what: &str) -> Output {
    command.output().unwrap_or_else(|error| panic!("this test needs {what}: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn unchanged_npm_client_works() {
    let package =
        tokio::task::spawn_blocking(|| npm_package(PACKAGE, VERSION, env!("CARGO_TARGET_TMPDIR").as_ref())).await.unwrap();
    let demo = Demo::start().await;
    let mut node = Command::new("node");
    node.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node/drive.mjs"));
    node.env("PACKAGE_DIR", package).env("ENDPOINT", demo.env("INGEST_URL")).env("API_KEY", demo.env("AGENT_KEY"));
    let output = tokio::task::spawn_blocking(move || run(&mut node, "Node.js 20 or later")).await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the client failed:\n{said}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("the script prints no JSON");
    eprintln!("{report}");

    let counted = report["counted"].as_object().expect("the script prints no counts").clone();
    let total: u64 = counted.values().filter_map(serde_json::Value::as_u64).sum();
    wait_for_events(&demo, total).await;
    let summary = eventually("every session is counted", || async {
        let summary = demo.get(demo.env("OWNER_KEY"), "/content-owners/summary").await.body;
        (summary["total_sessions"] == report["sessions"]).then_some(summary)
    })
    .await;
    for (event_type, expected) in counted {
        let types = summary["events_by_type"].as_array().expect("the summary has no types");
        let found = types.iter().find(|entry| entry["event_type"] == event_type.as_str()).map(|entry| &entry["count"]);
        assert_eq!(found, Some(&expected), "{event_type}: {summary}");
    }
}
