//! Golden output of the commands that close months and read statements.

use super::transcript::Transcript;
use crate::test_service::{Service, wait_for_events};
use serde_json::{Value, json};
use service_kit::clock::Clock;
use service_kit::testing::eventually;

#[tokio::test(flavor = "multi_thread")]
async fn statements_match_golden_output() {
    let service = Service::start().await;
    let (owner, agent) = (service.terminal("OWNER_KEY"), service.terminal("AGENT_KEY"));
    let fetch = json!({"type": "content_retrieved", "source_role": "agent", "timestamp": "2026-10-05T10:00:00Z",
        "content_url": "https://www.example.com/1", "session_id": "0195f3a0-0000-7000-8000-000000000010"});
    agent.run_with_input(&["events", "send", "-"], &fetch.to_string()).ok();
    wait_for_events(&owner, 1).await;
    // A statement contains the reports that were accepted before the second in which it is closed.
    let second = Clock::System.now().timestamp();
    eventually("the second is over", || async { (Clock::System.now().timestamp() > second).then_some(()) }).await;
    let mut kept = Transcript::new("statements");
    kept.run_in_both_formats(&owner, &["statement", "close", "2026-10"]);
    kept.run(&owner, &["statement", "close", "2026-13"]);
    kept.run_in_both_formats(&owner, &["statement", "list"]);
    let list: Value = owner.run(&["statement", "list", "-o", "json"]).json();
    let id = list["items"][0]["id"].as_str().unwrap();
    kept.run(&owner, &["statement", "get", id, "--format", "csv"]);
    kept.run(&owner, &["statement", "get", id, "--format", "counter"]);
    let evidence = owner.run(&["statement", "evidence", id]);
    let row: Value = serde_json::from_str(evidence.stdout.trim()).unwrap();
    for name in ["organization", "session"] {
        kept.hide(row[name].as_str().unwrap(), name);
    }
    kept.hide(&row["accepted_us"].to_string(), "microseconds");
    kept.run(&owner, &["statement", "evidence", id]);
    kept.check();
}
