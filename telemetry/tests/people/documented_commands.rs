//! Runs the operator commands in the docs next to `cargo up`, as written. The tests of `telemetry all` cover the requests in the other
//! docs.

use crate::test_service::{Service, wait_for_events};
use service_kit::testing::{client, eventually, free_address};
use std::path::Path;
use std::process::Stdio;
use tokio::process::{Child, Command};

fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the settings that a document tells readers to set first.
fn settings(document: &str) -> &str {
    let begin = document.find("`set -a; ").expect("the document names settings") + 1;
    &document[begin..begin + document[begin..].find('`').expect("the settings have an end")]
}

fn block(document: &str) -> Vec<&str> {
    let (_, rest) = document.split_once("```sh\n").expect("the document has a command block");
    rest.split_once("```").expect("the block has an end").0.lines().collect()
}

/// Returns a shell in the root of the clone with the program on its path.
fn shell(service: &Service, script: &str) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_telemetry")).parent().unwrap();
    let mut shell = Command::new("bash");
    shell.args(["-c", script]).env_clear().current_dir(service.clone_folder()).envs(service.unique_names());
    shell.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", program.display()));
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    shell
}

#[tokio::test(flavor = "multi_thread")]
async fn pipeline_commands_work_next_to_cargo_up() {
    let service = Service::start().await;
    let pipeline = document("docs/operating/pipeline.md");
    let lines = block(&pipeline);
    assert!(lines.len() >= 6, "{lines:?}");
    for line in lines {
        // A worker uses the service's database, so `rebuild` needs another one.
        let database = if line.contains("rebuild") { "export TELEMETRY_CLICKHOUSE_DATABASE+=_rebuilt" } else { "" };
        let ran = shell(&service, &format!("{}\n{database}\n{line}", settings(&pipeline))).output().await.unwrap();
        let said = format!("{line}\n{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert_eq!(ran.status.code(), Some(0), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn single_processes_work_next_to_cargo_up() {
    let service = Service::start().await;
    let processes = document("docs/operating/processes.md");
    let mut running: Vec<(String, Child)> = Vec::new();
    let lines = block(&processes);
    assert_eq!(lines.len(), 3, "{lines:?}");
    for line in lines {
        let listens =
            |option: &str| line.split_whitespace().skip_while(|word| *word != option).nth(1).expect("the command has an address");
        let (address, metrics) = (free_address().to_string(), free_address().to_string());
        let line = line.replace(listens("--listen"), &address).replace(listens("--metrics-listen"), &metrics);
        let process = shell(&service, &format!("{}\nexec {line}", settings(&processes))).spawn().unwrap();
        let ready = format!("http://{address}/ready");
        eventually(&line, async || client().get(&ready).send().await.ok().filter(|answer| answer.status() == 200)).await;
        running.push((address, process));
    }
    let [(gateway, _), _, (query, _)] = running.as_slice() else { panic!("a gateway, a worker and a query-api") };
    let [owner, reader] =
        [gateway, query].map(|address| service.terminal("OWNER_KEY").with("TELEMETRY_URL", &format!("http://{address}")));
    let event = r#"{"type":"content_retrieved","source_role":"origin","timestamp":"2026-11-01T10:00:00Z","content_url":"https://www.example.com/a"}"#;
    let file = owner.file("event.json", event);
    owner.run(&["events", "send", file.to_str().unwrap()]).ok();
    wait_for_events(&reader, 1).await;
}

/// docs/api/webhooks.md: `cargo up` permits webhooks to this local port by default.
#[tokio::test(flavor = "multi_thread")]
async fn cargo_up_permits_a_local_endpoint() {
    let service = Service::start().await;
    let webhooks = document("docs/api/webhooks.md");
    let create = webhooks.lines().find_map(|line| line.strip_prefix("telemetry webhook create ")).expect("a command exists");
    let url = create.split(' ').next().unwrap();
    let owner = service.terminal("OWNER_KEY");
    owner.run(&["webhook", "create", url, "-o", "json"]).ok();
    let other = owner.run(&["webhook", "create", &url.replace("8787", "8788"), "-o", "json"]);
    assert_eq!(other.code, 1, "{other:?}");
    let certificate = webhooks.split("--tls ").nth(1).and_then(|rest| rest.split(' ').next()).expect("it has a certificate");
    assert!(service.clone_folder().join(certificate).exists(), "{certificate}");
}
