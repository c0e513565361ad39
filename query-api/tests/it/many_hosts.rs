//! An owner of more hosts than a read has rows, beneath a domain that is its own from some time on and in part somebody else's.

use crate::test_app::{NEW_YEAR_MS, Observation, TestApp, seen};
use schemas::event::SourceRole::Edge;
use serde_json::json;
use std::collections::BTreeSet;

const HOSTS: usize = 100_001;
const HOUR_MS: i64 = 3_600_000;

/// One retrieval on each host, of every fourth before the domain was the owner's; and in another hour one on each of a hundred hosts of
/// somebody else.
fn rows() -> Vec<Observation> {
    let own = (0..HOSTS).map(|number| {
        let host = format!("h{number}.a.test");
        let url = format!("https://{host}/");
        seen(&host, number as u128).role(Edge).url(&url).after(if number % 4 == 0 { -HOUR_MS } else { HOUR_MS })
    });
    let foreign =
        (0..100).map(|number| seen(&format!("h{number}.taken.a.test"), (HOSTS + number) as u128).role(Edge).after(3 * HOUR_MS));
    own.chain(foreign).collect()
}

#[tokio::test]
async fn more_hosts_than_a_read_has_rows_are_told_apart_and_counted() {
    let app = TestApp::new().await;
    let (owner, other) = (app.seed().owner_of("a.test").await, app.seed().owner_of("taken.a.test").await);
    sqlx::query("UPDATE domains SET visible_from = $1 WHERE domain = 'a.test'")
        .bind(chrono::DateTime::from_timestamp_millis(NEW_YEAR_MS).unwrap())
        .execute(&app.stores.pool)
        .await
        .unwrap();
    app.insert(&rows()).await;
    let expected = HOSTS - HOSTS.div_ceil(4);
    let days = [("since", "2025-12-31"), ("until", "2026-01-01")];
    let by_day = [("by", "day"), days[0], days[1]];
    for is_merged in [false, true] {
        let read =
            async |path: &str, query: &[(&str, &str)]| app.page(&owner.key, &format!("/content-owners/{path}"), query).await;
        assert_eq!(read("summary", &[]).await["total_events"], expected, "merged: {is_merged}");
        assert_eq!(read("summary", &days).await["total_events"], expected, "merged: {is_merged}");
        for list in ["urls", "events"] {
            let page = read(list, &[("limit", "1000"), ("offset", "500")]).await;
            let urls: BTreeSet<_> = page["items"].as_array().unwrap().iter().map(|item| item["content_url"].as_str()).collect();
            assert_eq!((urls.len(), &page["total"]), (1_000, &json!(expected)), "{list}, merged: {is_merged}");
        }
        for (list, member) in [("funnel", "retrieved"), ("corroboration", "seen_by_server_only"), ("series", "total_events")] {
            let told: u64 =
                read(list, &by_day).await["items"].as_array().unwrap().iter().filter_map(|day| day[member].as_u64()).sum();
            assert_eq!(told, expected as u64, "{list}, merged: {is_merged}");
        }
        assert_eq!(read("coverage", &days).await["coverage"]["hours_covered"], 1, "merged: {is_merged}");
        assert_eq!(app.total(&other.key, &[]).await, 100);
        app.merge().await;
    }
    let read = async |path: &str, query: &[(&str, &str)]| app.get(&owner.key, &format!("/content-owners/{path}"), query).await;
    let told = async |path: &str, query: &[(&str, &str)]| read(path, query).await.json();
    for (domain, expected) in [("a.test", expected), ("h7.a.test", 1), ("h8.a.test", 0)] {
        assert_eq!(told("summary", &[("domain", domain)]).await["total_events"], expected, "{domain}");
    }
    assert_eq!(read("summary", &[("domain", "taken.a.test")]).await.status, 403);
    let by_status = told("series", &[("split", "status"), by_day[0], days[0], days[1]]).await;
    let of_all: u64 = by_status["items"].as_array().unwrap().iter().filter_map(|item| item["total_events"].as_u64()).sum();
    assert_eq!(of_all, expected as u64);
    let event = told("events", &[("limit", "1")]).await["items"][0].clone();
    let found = told(&format!("events/{}", event["event_id"].as_str().unwrap()), &[]).await;
    assert!(found.to_string().contains(event["content_url"].as_str().unwrap()), "{found}");
    let foreign = app.page(&other.key, "/content-owners/events", &[("limit", "1")]).await["items"][0]["event_id"].clone();
    assert_eq!(read(&format!("events/{}", foreign.as_str().unwrap()), &[]).await.status, 404);
    assert_eq!(read("crawlers", &days).await.status, 200);
}
