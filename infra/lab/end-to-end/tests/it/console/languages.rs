//! Figures in the notation of the reader's language.

use super::Reader;
use crate::demo::Demo;
use chrono::{SecondsFormat, TimeDelta};
use serde_json::{Value, json};
use service_kit::clock::Clock;

/// The same figures in another notation, with the same exact values; files stay as they are.
#[tokio::test]
async fn figures_are_written_as_the_readers_language_writes_them_and_files_as_programs_read_them() {
    let demo = Demo::start().await;
    let now = Clock::System.now() - TimeDelta::hours(1);
    let event = |number: usize| {
        let kind = ["content_retrieved", "content_cited"][number % 2];
        json!({"type": kind, "timestamp": now.to_rfc3339_opts(SecondsFormat::Millis, true),
            "source_role": "agent", "session_id": "67e55044-10b1-426f-9247-bb680e5fe0c8",
            "content_url": format!("https://www.example.com/{number}")})
    };
    for part in (0..2_100).collect::<Vec<_>>().chunks(1_000) {
        let events: Vec<Value> = part.iter().map(|number| event(*number)).collect();
        assert_eq!(demo.post(demo.env("AGENT_KEY"), &json!({"events": events})).await.status, 201);
    }
    demo.counts(2_100).await;
    let home = format!("/console/o/{}", demo.env("OWNER_ORG_ID"));
    for (languages, count, whole, permille) in [
        ("", "1,050", "2,100", "100.0"),
        ("de-DE,de;q=0.9,en;q=0.8", "1.050", "2.100", "100,0"),
        ("fr", "1\u{202f}050", "2\u{202f}100", "100,0"),
        ("xx, pl;q=0.1", "1050", "2100", "100,0"),
    ] {
        let mut reader = Reader::signed_in(&demo, "OWNER_SESSION");
        reader.languages = languages;
        let overview = reader.open(&format!("{home}/overview")).await;
        let shown = format!("data-figure=\"retrieved\"><data value=\"1050\">{count}</data>");
        assert!(overview.html.contains(&shown), "{languages}: {shown}: {}", overview.html);
        assert!(overview.html.contains(&format!("fetched {count} times")), "{languages}: the sentence: {}", overview.html);
        assert!(overview.html.contains(&format!("Fetches: {count}")), "{languages}: the chart's title: {}", overview.html);
        assert!(
            overview.html.contains(&format!("<data value=\"1050/1050\">{permille}&thinsp;%")),
            "{languages}: {}",
            overview.html
        );
        let agents = reader.open(&format!("{home}/agents")).await;
        assert!(agents.html.contains(&format!("<data value=\"2100\">{whole}</data>")), "{languages}: {}", agents.html);
        let list = reader.open(&format!("{home}/pages")).await;
        assert!(list.html.contains(&format!("1\u{2013}50 of {whole}<")), "{languages}: {}", list.html);
        let file = reader.open(&format!("{home}/export/series.csv?by=day&split=type")).await;
        assert!(file.html.contains(",1050,"), "{languages}: {}", file.html);
    }
}
