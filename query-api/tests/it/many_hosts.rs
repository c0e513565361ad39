//! An owner of more hosts than a read has rows, whose hosts have to be told apart: since when they are its own, and which are not.

use crate::test_app::{NEW_YEAR_MS, Observation, TestApp, seen};
use schemas::event::SourceRole::Edge;
use serde_json::json;
use std::collections::BTreeSet;

const HOSTS: usize = 100_001;
const HOUR_MS: i64 = 3_600_000;

/// One retrieval on each host, of every fourth before the domain was the owner's; and one on each of a hundred hosts of somebody else.
fn rows() -> Vec<Observation> {
    let own = (0..HOSTS).map(|number| {
        let host = format!("h{number}.a.test");
        let url = format!("https://{host}/");
        seen(&host, number as u128).role(Edge).url(&url).after(if number % 4 == 0 { -HOUR_MS } else { HOUR_MS })
    });
    let foreign =
        (0..100).map(|number| seen(&format!("h{number}.taken.a.test"), (HOSTS + number) as u128).role(Edge).after(HOUR_MS));
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
    for is_compacted in [false, true] {
        let read =
            async |path: &str, query: &[(&str, &str)]| app.page(&owner.key, &format!("/content-owners/{path}"), query).await;
        assert_eq!(read("summary", &[]).await["total_events"], expected, "compacted: {is_compacted}");
        assert_eq!(read("summary", &days).await["total_events"], expected, "compacted: {is_compacted}");
        for list in ["urls", "events"] {
            let page = read(list, &[("limit", "1000"), ("offset", "500")]).await;
            let urls: BTreeSet<_> = page["items"].as_array().unwrap().iter().map(|item| item["content_url"].as_str()).collect();
            assert_eq!((urls.len(), &page["total"]), (1_000, &json!(expected)), "{list}, compacted: {is_compacted}");
        }
        for (list, member) in [("funnel", "retrieved"), ("corroboration", "seen_by_server_only"), ("series", "total_events")] {
            let told: u64 =
                read(list, &by_day).await["items"].as_array().unwrap().iter().filter_map(|day| day[member].as_u64()).sum();
            assert_eq!(told, expected as u64, "{list}, compacted: {is_compacted}");
        }
        assert_eq!(read("coverage", &days).await["coverage"]["hours_covered"], 1, "compacted: {is_compacted}");
        assert_eq!(app.total(&other.key, &[]).await, 100);
        app.compact().await;
    }
}
