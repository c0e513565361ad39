//! Tests that `--demo-data` creates sixty days of data for reads and pages.

use crate::demo::{Demo, DemoApp};
use serde_json::Value;
use service_kit::testing::eventually;

/// Returns a list item's count, which is selected by the name in one of its members.
fn count(list: &Value, member: &str, name: &str) -> u64 {
    let entries = list.as_array().into_iter().flatten();
    entries.filter(|entry| entry[member] == name).filter_map(|entry| entry["count"].as_u64()).sum()
}

/// Starts a service with demo data and waits until the data is counted. Also returns the printed numbers: fetches reported by the CDN and
/// by the server, sessions, and events of visits.
pub(crate) async fn demo_with_data() -> (DemoApp, [u64; 4]) {
    let demo = Demo::start_with(&[("TELEMETRY_DEMO_DATA", "true".to_owned())]).await;
    let said = demo.process.stdout();
    let line = said.lines().find(|line| line.starts_with("Sent sample data: ")).unwrap_or_else(|| panic!("{said}"));
    let numbers: Vec<u64> = line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    let [edge, origin, sessions, clicks] = numbers[..] else { panic!("{line}") };
    eventually("every report is counted", || async {
        let seen = demo.get(demo.env("OWNER_KEY"), "/content-owners/summary").await.body;
        let own = demo.get(demo.env("AGENT_KEY"), "/agent/summary").await.body;
        let by = |role| count(&seen["events_by_source"], "source_role", role);
        let is_seen = by("edge") == edge && by("origin") == origin;
        (is_seen && own["total_sessions"] == sessions && own["clicks"]["total_events"] == clicks).then_some(())
    })
    .await;
    (demo, [edge, origin, sessions, clicks])
}

#[tokio::test]
async fn owner_and_agent_see_sixty_days_of_demo_data() {
    let (demo, [edge, origin, sessions, clicks]) = demo_with_data().await;
    assert!(edge > 10_000 && origin > 2_000 && sessions > 800 && clicks > 200, "{edge} {origin} {sessions} {clicks}");
    let (owner, agent) = (demo.env("OWNER_KEY"), demo.env("AGENT_KEY"));
    let series = demo.get(owner, "/content-owners/series").await.body;
    let days = series["items"].as_array().unwrap();
    // There may be no events today yet.
    assert!(days.len() >= 59 && days[..59].iter().all(|day| day["total_events"].as_u64() > Some(50)), "{days:?}");
    let corroboration = demo.get(owner, "/content-owners/corroboration?limit=1000").await.body;
    let sum = |member: &str| -> u64 {
        corroboration["items"].as_array().unwrap().iter().filter_map(|item| item[member].as_u64()).sum()
    };
    for member in ["seen_by_both", "claimed_by_agent_only", "seen_by_server_only"] {
        assert!(sum(member) > 100, "{member}: {corroboration}");
    }
    let own = demo.get(agent, "/agent/summary").await.body;
    for outcome in ["browse", "abandonment", "conversion"] {
        assert!(count(&own["outcomes"]["by_type"], "outcome_type", outcome) > 0, "{outcome}: {own}");
    }
    for kind in ["content_engaged", "checkout_completed"] {
        assert!(count(&own["clicks"]["events_by_type"], "event_type", kind) > 5, "{kind}: {own}");
    }
    let page = demo.client.get(demo.url(&format!("/console/o/{}/clicks", demo.env("AGENT_ORG_ID"))));
    let page = page.header("cookie", format!("telemetry-session={}", demo.env("AGENT_SESSION"))).send().await.unwrap();
    let page = page.text().await.unwrap();
    assert!(page.contains("aria-label=\"Click token events\"") && page.contains("-User/1.0</td>"), "{page}");
    let crawlers = demo.get(owner, "/content-owners/crawlers?limit=1000").await.body;
    assert!(crawlers["unattributed"]["clicks"].as_u64() > Some(20), "{crawlers}");
    for operator in ["OpenAI", "Anthropic", "Perplexity"] {
        let bots = crawlers["items"].as_array().unwrap().iter().filter(|bot| bot["operator"] == operator);
        assert!(
            bots.clone().count() > 1 && bots.clone().all(|bot| bot["retrievals_per_click"].as_f64() > Some(1.0)),
            "{crawlers}"
        );
    }
    for kind in ["content_grounded", "content_cited", "content_presented", "content_engaged"] {
        assert!(count(&own["events_by_type"], "event_type", kind) > 100, "{kind}: {own}");
    }
}
