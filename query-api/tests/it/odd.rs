//! Fetches that are odd in one way each: the same organization in two roles, strange names, two URLs.

use crate::test_app::{Observation, TestApp, platform, seen};
use schemas::event::SourceRole::{Agent, Edge};
use serde_json::{Value, json};
use std::collections::BTreeSet;

async fn summary_of(rows: &[Observation]) -> Value {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(rows).await;
    let summary = app.ask(&owner.key, &[]).await.json();
    app.merge().await;
    assert_eq!(app.ask(&owner.key, &[]).await.json(), summary, "a merge changes nothing");
    summary
}

#[tokio::test]
async fn an_agent_that_is_also_the_edge_of_a_retrieval_counts_it_once() {
    let row = seen("example.com", 1).by(10).session(7).agent("alpha");
    let summary = summary_of(&[row.clone().role(Agent), row.role(Edge)]).await;
    let alpha = json!({"platform_id": platform(10), "agent_id": "alpha", "event_count": 1, "session_count": 1});
    assert_eq!(summary["agents"], json!([alpha]));
}

#[tokio::test]
async fn names_with_signs_of_any_kind_are_told_as_they_are() {
    let names = ["it's", "a\\b\\", "'),(1,'x", "[]", "line\nbreak\ttab\r\u{1}", "\\N", "NULL", "\u{fc} \u{2603}", "\"{}\""];
    let rows: Vec<_> =
        names.iter().zip(1..).map(|(name, key)| seen("example.com", key).by(10).agent(name).role(Agent).named(name)).collect();
    let summary = summary_of(&rows).await;
    let told = |list: &str, name: &str| -> BTreeSet<String> {
        summary[list].as_array().unwrap().iter().map(|item| item[name].as_str().unwrap().to_owned()).collect()
    };
    let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!((told("agents", "agent_id"), told("events_by_type", "event_type")), (names.clone(), names));
}

#[tokio::test]
async fn a_retrieval_whose_observers_name_two_urls_is_of_the_first_with_the_sessions_of_both() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let row = |url: &str, session| seen("example.com", 1).url(url).session(session);
    app.insert(&[
        row("https://example.com/a?utm_source=b", 1).by(10).agent("alpha").role(Agent),
        row("https://example.com/a", 2).by(20).role(Edge),
    ])
    .await;
    let page = app.page(&owner.key, "/content-owners/urls", &[]).await;
    let told = |item: &Value| json!([item["content_url"], item["total_events"], item["unique_sessions"]]);
    let items: Vec<Value> = page["items"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(items, [json!(["https://example.com/a?utm_source=b", 1, 2])]);
}

#[tokio::test]
async fn a_server_of_the_organisation_that_claims_a_retrieval_is_no_second_witness() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let claimed = |key| seen("example.com", key).by(10).agent("alpha").role(Agent);
    app.insert(&[
        claimed(1),
        seen("example.com", 1).by(10).role(Edge),
        claimed(2),
        seen("example.com", 2).by(10).role(Edge),
        seen("example.com", 2).by(20).role(Edge),
    ])
    .await;
    let page = app.page(&owner.key, "/content-owners/corroboration", &[]).await;
    let part = &page["items"][0];
    assert_eq!((&part["seen_by_both"], &part["claimed_by_agent_only"]), (&json!(1), &json!(1)), "{page}");
}
