//! Golden output of commands that send events and read figures.

use super::transcript::{Transcript, was_used};
use crate::terminal::Terminal;
use crate::test_service::{Service, wait_for_events};
use serde_json::json;

const SESSION: &str = "0195f3a0-0000-7000-8000-000000000010";
const RETRIEVAL: &str = "5b0d34c6-4f57-4e3d-8a55-9f6fd4a0a001";
const LOG: &str = r#"132.196.86.7 - - [01/Nov/2026:11:00:00 +0000] "GET /log/1 HTTP/2.0" 200 5120 "-" "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"
132.196.86.7 - - [01/Nov/2026:11:00:01 +0000] "GET /log/2 HTTP/2.0" 404 0 "-" "Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"
198.51.100.7 - - [01/Nov/2026:11:00:02 +0000] "GET /log/3 HTTP/2.0" 200 5120 "-" "Mozilla/5.0 Firefox/141.0"
"#;

fn by_the_edge(n: u32) -> String {
    json!({
        "id": format!("e-{n}"), "type": "content_retrieved", "source_role": "edge", "timestamp": format!("2026-11-01T10:01:{n:02}Z"),
        "content_url": format!("https://www.example.com/{n}"), "data": {"user_agent": "PerplexityBot/1.0", "response_status": 200},
    })
    .to_string()
}

fn by_the_agent() -> String {
    let event = |kind: &str, second: u32, more: serde_json::Value| {
        let mut event = json!({
            "type": kind, "timestamp": format!("2026-11-01T10:00:{second:02}Z"), "content_url": "https://www.example.com/1",
        });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    json!({"session_id": SESSION, "agent_id": "answer-engine", "events": [
        event("content_retrieved", 1, json!({"id": "a-1", "source_role": "agent", "content_telemetry_id": RETRIEVAL})),
        event("content_grounded", 2, json!({"id": "a-2", "data": {"scope": "turn"}})),
        event("content_cited", 3, json!({"id": "a-3", "data": {"citation_type": "paraphrase"}})),
        event("content_presented", 4, json!({"id": "a-4", "data": {"presentation_kind": "link"}})),
    ]})
    .to_string()
}

fn send(kept: &mut Transcript, service: &Service) {
    let (network, agent, owner) = (service.terminal("NETWORK_KEY"), service.terminal("AGENT_KEY"), service.terminal("OWNER_KEY"));
    kept.run_with_input(&network, &["events", "send", "-"], &by_the_edge(1));
    kept.run_with_input(&agent, &["events", "send", "-", "-o", "json"], &by_the_agent());
    network.file("events.ndjson", &format!("{}\n{}\n", by_the_edge(2), by_the_edge(3)));
    kept.run_in_both_formats(&network, &["events", "import", "events.ndjson"]);
    network.file("broken.ndjson", "{\"type\": \"content_retrieved\"}\n");
    kept.run(&network, &["events", "import", "broken.ndjson"]);
    owner.file("access.log", LOG);
    let import = ["import", "access.log", "--provider", "combined", "--host", "www.example.com"];
    kept.run(&owner, &import);
    kept.run(&owner, &[&import[..], &["--from-start", "-o", "json"]].concat());
}

fn read(kept: &mut Transcript, owner: &Terminal, agent: &Terminal) {
    let day = ["--since", "2026-11-01", "--until", "2026-11-01"];
    for command in [
        &["wait", "--path", "/log/*"][..],
        &["summary"],
        &["series", "--split", "type"],
        &["urls"],
        &["urls", "--path", "/log/*"],
        &["urls", "--by", "section"],
        &["urls", "--by", "page,agent", "--evidence", "claimed"],
        &["series", "--split", "evidence"],
        &["crawlers"],
        &["robots"],
        &["reconciliation"],
        &["coverage"],
        &["funnel"],
        &["corroboration"],
    ] {
        kept.run_in_both_formats(owner, &[command, &day].concat());
    }
    kept.run_in_both_formats(owner, &[&["events", "list"][..], &day].concat());
    let export = [&["events", "export", "--event-type", "content_cited"][..], &day].concat();
    let document = owner.run(&export).json();
    kept.hide(document["extensions"]["observer"]["id"].as_str().unwrap(), "observer");
    kept.run(owner, &export);
    let tail = [&["events", "tail", "--lines", "2", "--count", "2"][..], &day].concat();
    kept.run_in_both_formats(owner, &tail);
    kept.run_in_both_formats(agent, &[&["summary", "--agent"][..], &day].concat());
    kept.run(agent, &["session", "document", SESSION]);
    for seconds in ["0", "1", "2"] {
        kept.hide(&format!("{seconds} s off"), "seconds off");
    }
    kept.run_in_both_formats(owner, &["doctor"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_figures_match_golden_output() {
    let service = Service::start().await;
    let (owner, agent) = (service.terminal("OWNER_KEY"), service.terminal("AGENT_KEY"));
    let mut sent = Transcript::new("events");
    send(&mut sent, &service);
    sent.check();
    wait_for_events(&owner, 8).await;
    let mut kept = Transcript::new("figures");
    read(&mut kept, &owner, &agent);
    was_used(&owner, "demo").await;
    kept.run_in_both_formats(&owner, &["whoami"]);
    kept.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_for_each_exit_code_match_golden_output() {
    let service = Service::start().await;
    let owner = service.terminal("OWNER_KEY");
    let mut kept = Transcript::new("exit_codes");
    kept.run(&owner, &["urls", "--since", "2026-11-01", "--until", "2026-11-01"]);
    kept.run(&owner, &["series", "--by", "hour", "--since", "2000-01-01", "--until", "2026-01-01"]);
    kept.run(&owner, &["urls", "--path", "blog/*"]);
    kept.run(&owner, &["summary", "--since", "lately"]);
    kept.run(&owner, &["summary", "--nonsense"]);
    kept.run(&owner, &["events", "send", "gone.json"]);
    kept.run(&owner, &["summary", "--domain", "other.example"]);
    kept.run(&Terminal::new(), &["summary", "--url", "https://telemetry.example"]);
    kept.run(&owner, &["key", "show", "nobody's"]);
    kept.run(&owner, &["summary", "--url", "http://127.0.0.1:1"]);
    kept.check();
}
