//! "See what they see": an owner's screens as a partner sees them.

use super::Reader;
use crate::demo::{Demo, answer};
use chrono::TimeDelta;
use serde_json::{Value, json};
use service_kit::clock::Clock;

/// Five events of the owner's, and the delegation by which a partner sees them.
async fn used_and_shared(demo: &Demo) -> Value {
    let now = Clock::System.now() - TimeDelta::minutes(5);
    let event = |number: usize| {
        let kind = ["content_retrieved", "content_cited"][number % 2];
        json!({
            "type": kind, "timestamp": now.to_rfc3339(), "source_role": "agent",
            "session_id": "67e55044-10b1-426f-9247-bb680e5fe0c8", "event_id": format!("of-{number}"),
            "content_url": format!("https://www.example.com/{number}"),
        })
    };
    let sent = demo.post(demo.env("AGENT_KEY"), &json!({"events": (0..5).map(event).collect::<Vec<_>>()})).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
    demo.counts(5).await;
    let partner = demo.env("NETWORK_ORG_ID");
    let asked = demo.client.post(demo.url("/api/v1/identity/delegations")).header("x-api-key", demo.env("OWNER_KEY"));
    let granted = answer(asked.json(&json!({"grantee_org_id": partner}))).await;
    assert_eq!(granted.status, 201, "{}", granted.body);
    granted.body
}

#[tokio::test]
async fn an_owner_sees_in_the_console_what_the_api_answers_the_partner_while_it_may_read() {
    let demo = Demo::start().await;
    let granted = used_and_shared(&demo).await;
    let partner = demo.env("NETWORK_ORG_ID");
    let home = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    let mut owner = Reader::signed_in(&demo, "OWNER_SESSION");
    let page = owner.open(&format!("{home}/partners")).await;
    let link = format!("{home}/overview?seen_by={partner}");
    assert!(
        page.html.contains(&format!("href=\"{link}\">See what they see<span class=\"hidden\">: Demo Network")),
        "{}",
        page.html
    );

    let delegated = format!("/content-owners/summary?delegated_from={}", demo.env("OWNER_ORG_ID"));
    let summary = demo.get(demo.env("NETWORK_KEY"), &delegated).await.body;
    let overview = owner.open(&link).await;
    for (figure, event_type) in [("retrieved", "content_retrieved"), ("cited", "content_cited")] {
        let mut counted = summary["events_by_type"].as_array().unwrap().iter();
        let counted = counted.find(|counted| counted["event_type"] == event_type).unwrap();
        assert_eq!(overview.figure(figure), counted["count"].to_string(), "{figure}");
    }
    let banner = "viewing your data as <strong>Demo Network</strong> sees it";
    let back = format!("{home}/overview?period=30d");
    assert!(overview.html.contains(banner) && overview.html.contains(&format!("<a href=\"{back}\">Back")), "{}", overview.html);
    assert!(!owner.open(&back).await.html.contains("sees it"), "one's own view says nothing of a partner");

    // Every link to another screen with a period, and every file, keeps it.
    let kept = format!("seen_by={partner}");
    for screen in ["overview", "events", "pages", "corroboration", "funnel", "agents", "crawlers", "export"] {
        let begins = format!("href=\"{home}/{screen}");
        let links: Vec<&str> = overview.all_between(&begins, "\"").collect();
        assert!(!links.is_empty(), "{screen}: {}", overview.html);
        let lost: Vec<_> = links.iter().filter(|link| !link.contains(&kept) && **link != "?period=30d").collect();
        assert!(lost.is_empty(), "{screen}: {lost:?}");
        if screen != "export" {
            let page = owner.open(&format!("{home}/{screen}?{kept}")).await;
            assert!(page.status == 200 && page.html.contains(banner), "{screen}: {}", page.html);
        }
    }
    let behind = overview.between("<code>curl", "</code>").unwrap();
    assert!(behind.contains(&kept), "{behind}");
    let file = owner.open(&format!("{home}/export/events.csv?{kept}")).await;
    assert_eq!(csv::Reader::from_reader(file.html.as_bytes()).into_records().count(), 5, "{}", file.html);
    let events = owner.open(&format!("{home}/events?{kept}")).await;
    let event = events.all_between("<td><a href=\"", "\"").next().unwrap().replace("&#38;", "&");
    assert!(event.contains(&kept), "{event}");
    let one = owner.open(&event).await;
    assert!(one.status == 200 && one.html.contains(banner), "{}", one.html);

    // Nobody else is shown anything by it, and nobody after the delegation.
    let mut agent = Reader::signed_in(&demo, "AGENT_SESSION");
    assert_eq!(agent.open(&link).await.status, 404);
    let theirs = agent.open(&format!("/console/o/{}/overview?{kept}", demo.env("AGENT_ORG_ID"))).await;
    assert_eq!(theirs.status, 403, "{}", theirs.html);
    let page = owner.open(&format!("{home}/partners")).await;
    owner.press(&page, &format!("/{}/revoke", granted["id"].as_str().unwrap()), &[]).await;
    for address in [&link, &event, &format!("{home}/export/events.csv?{kept}")] {
        let page = owner.open(address).await;
        assert!(
            page.status == 403 && page.html.contains("share data with the organization in seen_by"),
            "{address}: {}",
            page.html
        );
    }
}
