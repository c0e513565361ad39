//! Golden output of operator commands: `identity-api admin`, and those for the log and the stores.

use super::transcript::Transcript;
use crate::terminal::Terminal;
use crate::test_service::{Service, wait_for_events};
use serde_json::Value;
use service_kit::testing::TestLog;

const EVENT: &str = r#"{"id": "e-1", "type": "content_retrieved", "source_role": "edge", "timestamp": "2026-11-01T10:00:00Z", "content_url": "https://www.example.com/1"}"#;

/// A record without events that every worker can read.
const RECORD: &str = r#"{"v": 1, "org": "0195f3a0-0000-7000-8000-000000000001", "received_at_us": 1793527200000000, "kind": "events", "events": []}"#;

fn admin<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["identity-api", "admin"], words].concat()
}

/// Runs a command and returns a member of its JSON output.
fn run_and_get_member(kept: &mut Transcript, terminal: &Terminal, words: &[&str], member: &str) -> String {
    let said = kept.run(terminal, &admin(&[words, &["-o", "json"]].concat())).json();
    said[member].as_str().unwrap_or_else(|| panic!("{member} of {said}")).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn admin_commands_match_golden_output() {
    let service = Service::start().await;
    let terminal = service.operators_terminal();
    let mut kept = Transcript::new("admin");
    kept.run(&terminal, &["identity-api", "migrate"]);
    kept.run(&terminal, &admin(&["operator", "add", "ada@example.net"]));
    kept.run(&terminal, &admin(&["operator", "add", "bob@example.net", "-o", "json"]));
    kept.run_in_both_formats(&terminal, &admin(&["operator", "list"]));
    kept.run(&terminal, &admin(&["operator", "remove", "ada@example.net"]));
    kept.run(&terminal, &admin(&["operator", "remove", "bob@example.net", "-o", "json"]));

    let create = ["organization", "create", "--name", "A Newspaper", "--type", "content_owner", "--domain", "newspaper.example"];
    kept.run(&terminal, &admin(&create));
    let platform =
        run_and_get_member(&mut kept, &terminal, &["organization", "create", "--name", "A Network", "--type", "platform"], "id");
    kept.run_in_both_formats(&terminal, &admin(&["organization", "list", "--type", "platform"]));
    let owner = service.value("OWNER_ORG_ID");
    kept.run_in_both_formats(&terminal, &admin(&["organization", "show", owner]));

    keys(&mut kept, &terminal, &platform);
    domains(&mut kept, &terminal, owner);
    manifest_hosts(&mut kept, &terminal, &platform);
    partners(&mut kept, &terminal, &platform);
    analysts(&mut kept, &terminal, &service).await;
    access_requests(&mut kept, &terminal, &service).await;

    kept.run(&terminal, &admin(&["organization", "show", "0195f3a0-0000-7000-8000-000000000099"]));
    kept.run(&terminal, &admin(&["organization", "show", "nobody's"]));
    let away = Terminal::new().with("DATABASE_URL", "postgres://telemetry@127.0.0.1:1/telemetry");
    kept.run(&away, &admin(&["operator", "list"]));
    kept.check();
}

fn keys(kept: &mut Transcript, terminal: &Terminal, platform: &str) {
    kept.run(terminal, &admin(&["key", "create", "--organization", platform, "--name", "first"]));
    let key = run_and_get_member(kept, terminal, &["key", "create", "--organization", platform, "--name", "second"], "id");
    kept.run_in_both_formats(terminal, &admin(&["key", "list", "--organization", platform]));
    kept.run_in_both_formats(terminal, &admin(&["key", "revoke", &key]));
}

fn domains(kept: &mut Transcript, terminal: &Terminal, owner: &str) {
    kept.run(terminal, &admin(&["domain", "add", "--organization", owner, "magazine.example"]));
    let domain = run_and_get_member(kept, terminal, &["domain", "add", "--organization", owner, "weekly.example"], "id");
    kept.run_in_both_formats(terminal, &admin(&["domain", "list", "--organization", owner]));
    kept.run_in_both_formats(terminal, &admin(&["domain", "verify", &domain]));
    kept.run(terminal, &admin(&["domain", "release", &domain]));
    let other = run_and_get_member(kept, terminal, &["domain", "add", "--organization", owner, "daily.example"], "id");
    kept.run(terminal, &admin(&["domain", "release", &other, "-o", "json"]));
    kept.run(terminal, &admin(&["domain", "release", &other]));
}

fn manifest_hosts(kept: &mut Transcript, terminal: &Terminal, platform: &str) {
    for action in ["attest", "withdraw"] {
        kept.run_in_both_formats(terminal, &admin(&["manifest-host", action, "--organization", platform, "agents.example"]));
    }
}

fn partners(kept: &mut Transcript, terminal: &Terminal, platform: &str) {
    kept.run_in_both_formats(terminal, &admin(&["partner", "trust", platform]));
    kept.run_in_both_formats(terminal, &admin(&["partner", "untrust", platform]));
}

async fn analysts(kept: &mut Transcript, terminal: &Terminal, service: &Service) {
    let owner = service.value("OWNER_ORG_ID");
    kept.run(terminal, &admin(&["analyst", "create", "--organization", owner]));
    service.record_analyst_maintenance().await;
    kept.run(terminal, &admin(&["analyst", "create", "--organization", owner]));
    let account = run_and_get_member(kept, terminal, &["analyst", "create", "--organization", owner, "--name", "Board"], "id");
    kept.run_in_both_formats(terminal, &admin(&["analyst", "list", "--organization", owner]));
    kept.run_in_both_formats(terminal, &admin(&["analyst", "revoke", &account]));
}

async fn access_requests(kept: &mut Transcript, terminal: &Terminal, service: &Service) {
    for (name, verdict) in [("An Agent", "approve"), ("Another Agent", "reject")] {
        for form in ["table", "json"] {
            let id = request_agent_organization(service, &format!("{name} ({form})")).await;
            kept.run_in_both_formats(terminal, &admin(&["access-request", "list", "--status", "pending"]));
            kept.run(terminal, &admin(&["access-request", verdict, &id, "-o", form]));
        }
    }
}

async fn request_agent_organization(service: &Service, name: &str) -> String {
    let body = serde_json::json!({"org_name": name, "admin_email": "ada@example.net", "use_case": "answers with links"});
    let request = service_kit::testing::client()
        .post(format!("{}/api/v1/identity/agent-access-requests", service.url()))
        .header("authorization", format!("Bearer {}", service.value("USER_SESSION")))
        .header("content-type", "application/json")
        .body(body.to_string());
    let answer: Value = serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap();
    answer["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Runs a command with output that differs between runs. `varies` selects the lines to replace.
fn run_without(kept: &mut Transcript, terminal: &Terminal, words: &[&str], varies: impl Fn(&str) -> bool, name: &str) {
    let said = terminal.run(words);
    for word in [said.stdout.as_str(), &said.stderr].into_iter().flat_map(str::lines).filter(|line| varies(line)) {
        kept.hide(word.trim(), name);
    }
    kept.add(words, "", &said, &said.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn log_and_store_commands_match_golden_output() {
    let service = Service::start().await;
    let (terminal, name) = (service.operators_terminal(), &service.stores.name);
    let mut kept = Transcript::new("stream_workers");
    kept.hide(name, "name");
    kept.run(&terminal, &["stream-workers", "prepare"]);
    kept.run_in_both_formats(&terminal, &["stream-workers", "processed"]);

    service.terminal("NETWORK_KEY").run_with_input(&["events", "send", "-"], EVENT).ok();
    wait_for_events(&service.terminal("OWNER_KEY"), 1).await;
    // An event inserted several times has several rows until they are merged.
    kept.run(&terminal, &["stream-workers", "rebuild"]);
    let is_pace = |line: &str| line.ends_with(" events/s");
    for form in ["table", "json"] {
        let replay = ["stream-workers", "replay", "--expect-unchanged", "-o", form];
        run_without(&mut kept, &terminal, &replay, is_pace, "pace");
    }
    for form in ["table", "json"] {
        let database = format!("{name}_{form}");
        let elsewhere = service.operators_terminal().with("TELEMETRY_CLICKHOUSE_DATABASE", &database);
        kept.run(&elsewhere, &["stream-workers", "rebuild", "-o", form]);
        let clickhouse = service_kit::databases::clickhouse(&service.stores.clickhouse).unwrap();
        clickhouse.query(&format!("DROP DATABASE {database}")).execute().await.unwrap();
    }

    let log = TestLog::connect(&service.stores.kafka);
    // The name's width depends on the process id.
    kept.without_widths();
    let origins = [0, 1].map(|partition| format!("{name}/{partition}/77"));
    for origin in &origins {
        log.put_dead_letter(origin, "record version 1 is newer than this worker's 0", RECORD.as_bytes()).await;
    }
    kept.run_in_both_formats(&terminal, &["stream-workers", "rejected", "list"]);
    kept.run_in_both_formats(&terminal, &["stream-workers", "rejected", "show", &origins[0]]);
    for (origin, form) in origins.iter().zip(["table", "json"]) {
        retry(&mut kept, &terminal, origin, form);
    }
    kept.run(&terminal, &["stream-workers", "rejected", "show", &format!("{name}/5/5")]);
    kept.check();
}

/// The broker chooses the offset of a retried record.
fn retry(kept: &mut Transcript, terminal: &Terminal, origin: &str, form: &str) {
    let words = ["stream-workers", "rejected", "retry", origin, "-o", form];
    let said = terminal.run(&words).ok();
    let (name, _) = origin.split_once('/').unwrap();
    let is_place = |word: &&str| word.starts_with(name) && *word != origin;
    let place = said.stdout.split([' ', '"', '\n']).find(is_place).unwrap_or_else(|| panic!("{said:?}"));
    kept.hide(place, "place");
    kept.add(&words, "", &said, &said.stdout);
}
