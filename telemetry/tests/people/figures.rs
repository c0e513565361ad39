//! Figures and events in every output format.

use crate::test_service::{Service, wait_for_events};
use serde_json::{Value, json};
use service_kit::testing::eventually;

fn event(n: u32) -> Value {
    json!({
        "id": format!("e-{n}"), "type": "content_retrieved", "source_role": "edge", "timestamp": format!("2026-11-01T10:00:{n:02}Z"),
        "content_url": format!("https://www.example.com/{n}"), "data": {"user_agent": "PerplexityBot/1.0", "response_status": 200},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_imports_and_reads_events_in_every_format() {
    let service = Service::start().await;
    let (network, owner) = (service.terminal("NETWORK_KEY"), service.terminal("OWNER_KEY"));
    let sent = network.run_with_input(&["events", "send", "-", "-o", "json"], &event(0).to_string()).json();
    assert_eq!(sent["events_created"], 1, "{sent}");

    let lines: Vec<String> = (0..5).map(|n| event(n).to_string()).collect();
    let file = network.file("events.ndjson", &lines.join("\n"));
    let import = ["events", "import", file.to_str().unwrap(), "-o", "json"];
    assert_eq!(network.run(&import).json()["events"], 5);
    assert_eq!(network.run(&import).json()["events_created"], 0, "importing twice adds no event");
    wait_for_events(&owner, 5).await;

    let without_id = |n: u32| {
        let mut event = event(n);
        event.as_object_mut().unwrap().remove("id");
        // On a day that the following reads don't include.
        event.to_string().replace("2026-11-01", "2026-10-30")
    };
    let file = network.file("without-ids.ndjson", &format!("{}\n{}\n", without_id(20), without_id(21)));
    let import = ["events", "import", file.to_str().unwrap(), "-o", "json"];
    network.run(&import).ok();
    wait_for_events(&owner, 7).await;
    std::fs::write(&file, [20, 21, 22].map(without_id).join("\n")).unwrap();
    // Only the lines added to the file count.
    network.run(&import).ok();
    wait_for_events(&owner, 8).await;

    let broken = network.file("broken.ndjson", &format!("{}\n\n{{\"type\": \"content_retrieved\"}}\n", event(9)));
    let said = network.run(&["events", "import", broken.to_str().unwrap()]);
    assert!(said.code == 1 && said.stderr.contains("line 3: "), "the error names the line in the file: {said:?}");
    let said = network.run_with_input(&["events", "send", "-"], "not JSON");
    assert!(said.code == 2 && said.stderr.contains("invalid JSON"), "{said:?}");

    let day = ["--since", "2026-11-01", "--until", "2026-11-01"];
    let read = |arguments: &[&str]| owner.run(&[arguments, &day[..]].concat()).ok();
    let table = read(&["summary"]);
    assert!(table.stdout.lines().any(|line| line.split_whitespace().collect::<Vec<_>>() == ["Total", "5", "0"]), "{table:?}");
    assert!(read(&["summary", "-o", "csv"]).stdout.contains("total_events,5\n"));
    let series = read(&["series", "--split", "type", "-o", "csv"]);
    assert_eq!(
        series.stdout.lines().next(),
        Some("start,event_type,total_events,total_sessions,other,covered_hours"),
        "{series:?}"
    );
    let pages = read(&["urls", "-o", "ndjson"]);
    assert_eq!(pages.stdout.lines().filter(|line| serde_json::from_str::<Value>(line).is_ok()).count(), 5, "{pages:?}");
    let first = read(&["urls", "--limit", "2"]);
    assert!(first.stdout.lines().count() == 3 && first.stderr.contains("Showing 2 of 5"), "{first:?}");
    let of_path = read(&["urls", "--path", "/2*", "-o", "ndjson"]);
    assert!(of_path.stdout.lines().count() == 1 && of_path.stdout.contains("example.com/2\""), "{of_path:?}");
    let sections = read(&["urls", "--by", "section", "-o", "json"]).json();
    assert_eq!(
        (&sections["total"], &sections["items"][0]["content_url"]),
        (&json!(1), &json!("https://example.com/")),
        "{sections}"
    );
    for (command, has) in
        [("crawlers", "PerplexityBot"), ("coverage", "no"), ("funnel", "2026-11-01"), ("corroboration", "2026-11-01")]
    {
        let said = read(&[command]);
        assert!(said.stdout.contains(has), "{command}: {said:?}");
    }
    let funnel = read(&["funnel", "--by", "url", "-o", "json"]).json();
    assert_eq!(funnel["total"], 5);

    let listed = read(&["events", "list", "-o", "json"]).json();
    assert_eq!(listed["total"], 5);
    let tail = read(&["events", "tail", "-n", "3", "--count", "3", "-o", "ndjson"]);
    let urls: Vec<String> =
        tail.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["content_url"].to_string()).collect();
    assert_eq!(urls, [2, 3, 4].map(|n| format!("\"https://www.example.com/{n}\"")), "the newest events, oldest first");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_read_their_figures_and_session_documents() {
    let service = Service::start().await;
    let agent = service.terminal("AGENT_KEY");
    let session = "0195f3a0-0000-7000-8000-00000000abcd";
    let cited = json!({"session_id": session, "events": [
        {"type": "content_cited", "timestamp": "2026-11-01T10:00:00Z", "content_url": "https://www.example.com/a"}]});
    agent.run_with_input(&["events", "send", "-"], &cited.to_string()).ok();
    eventually("the agent sees its own figures", || async {
        let summary = agent.run(&["summary", "--agent", "-o", "json"]).json();
        (summary["total_events"] == 1).then_some(())
    })
    .await;
    let series = agent.run(&["series", "--agent", "--since", "2026-11-01", "--until", "2026-11-01"]).ok();
    assert!(series.stdout.starts_with("START") && series.stdout.contains("VIA CLICK TOKENS"), "{series:?}");
    let document = agent.run(&["session", "document", session]).json();
    assert!(document.to_string().contains(session), "{document}");
    let who = agent.run(&["whoami", "-o", "json"]).json();
    assert_eq!(who["organization_id"], service.value("AGENT_ORG_ID"));
    let who = agent.run(&["whoami"]).ok().stdout;
    let has = |fact: &str, value: &str| who.lines().any(|line| line.strip_prefix(fact).is_some_and(|rest| rest.trim() == value));
    assert!(has("Organization", "platform or agent (name not available to this key)"), "{who}");
    assert!(has("Organization ID", service.value("AGENT_ORG_ID")), "{who}");
}
