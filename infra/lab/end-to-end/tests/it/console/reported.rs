//! What an agent reported: what the console shows is what the API counts.

use super::Reader;
use crate::demo::Demo;
use serde_json::{Value, json};

fn home(demo: &Demo, variable: &str) -> String {
    format!("/console/o/{}", demo.env(variable))
}

#[tokio::test]
async fn what_an_agent_reported_is_shown_as_the_api_counts_it() {
    let demo = Demo::start().await;
    let now = service_kit::clock::Clock::System.now().to_rfc3339();
    let session = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    let event = |kind: &str| json!({"type": kind, "timestamp": now, "source_role": "agent", "session_id": session, "content_url": "https://www.example.com/page"});
    let sent = demo.post(demo.env("AGENT_KEY"), &json!({"events": [event("content_retrieved"), event("content_cited")]})).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
    demo.counts(2).await;
    let mut agent = Reader::signed_in(&demo, "AGENT_SESSION");
    let own = home(&demo, "AGENT_ORG_ID");
    let page = agent.open(&own).await;
    assert!(page.address.ends_with("/reported"), "{}", page.address);
    let summary = demo.get(demo.env("AGENT_KEY"), "/agent/summary").await.body;
    for (figure, told) in [
        ("events", &summary["total_events"]),
        ("sessions", &summary["total_sessions"]),
        ("clicks", &summary["clicks"]["total_events"]),
        ("outcomes", &summary["outcomes"]["total"]),
    ] {
        assert_eq!(page.figure(figure), told.to_string(), "{figure}");
    }
    let page = agent.open(&format!("{own}/reports")).await;
    assert!(page.html.contains(">Citation</th>") && page.html.contains(session), "{}", page.html);
    let file = agent.open(&format!("{own}/sessions/{session}")).await;
    assert!(file.headers["content-disposition"].to_str().unwrap().contains("session-67e55044"), "{:?}", file.headers);
    assert_eq!(serde_json::from_str::<Value>(&file.html).unwrap()["session_id"], session);
    let lines = agent.open(&format!("{own}/export/own-events.csv")).await;
    assert_eq!(csv::Reader::from_reader(lines.html.as_bytes()).into_records().count(), 2, "{}", lines.html);
    let foreign =
        Reader::signed_in(&demo, "OWNER_SESSION").open(&format!("{}/sessions/{session}", home(&demo, "OWNER_ORG_ID"))).await;
    assert_eq!(foreign.status, 404);
}
