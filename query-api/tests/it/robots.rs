//! `GET /content-owners/robots`.

use crate::test_app::{NEW_YEAR_MS, Observation, Query, TestApp, fetch_on};
use chrono::{DateTime, Utc};
use schemas::bots::Purpose;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use serde_json::json;

const DAY_MS: i64 = 86_400_000;

async fn see(app: &TestApp, site: &str, day: i64, body: &str) {
    let at: DateTime<Utc> = DateTime::from_timestamp_millis(NEW_YEAR_MS + day * DAY_MS).unwrap();
    sqlx::query(
        "INSERT INTO robots_checks (site, due_at, checked_at, state) VALUES ($1, $2, $2, 'found') ON CONFLICT DO NOTHING",
    )
    .bind(site)
    .bind(at)
    .execute(&app.stores.pool)
    .await
    .unwrap();
    sqlx::query("INSERT INTO robots_files VALUES ($1, $2, $2, $3)")
        .bind(site)
        .bind(at)
        .bind(body)
        .execute(&app.stores.pool)
        .await
        .unwrap();
}

fn fetched(key: u128, bot: &str, url: &str, day: i64, status: u16) -> Observation {
    let crawler = Crawler {
        bot: bot.to_owned(),
        operator: "OpenAI".to_owned(),
        purpose: Some(Purpose::Training),
        response_status: status,
        ..Crawler::default()
    };
    let host = url.split('/').nth(2).unwrap().trim_start_matches("www.");
    fetch_on(host, key).role(SourceRole::Edge).by(2).url(url).after(day * DAY_MS + 3_600_000).crawler(crawler)
}

#[tokio::test]
async fn counts_fetches_that_robots_txt_disallows_at_their_time() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("a.test").await;
    let stranger = app.seed().owner_of("b.test").await;
    see(&app, "test.a", 1, "User-agent: GPTBot\nDisallow: /private/\n").await;
    see(&app, "test.a", 3, "User-agent: *\nAllow: /\n").await;
    app.insert(&[
        fetched(1, "GPTBot", "https://a.test/private/x", 0, 200),
        fetched(2, "GPTBot", "https://www.a.test/private/x?page=2", 1, 200),
        fetched(3, "GPTBot", "https://a.test/private/x#part", 2, 200),
        fetched(4, "GPTBot", "https://a.test/private/x", 2, 404),
        fetched(5, "CCBot", "https://a.test/private/x", 2, 200),
        fetched(6, "GPTBot", "https://a.test/private/x", 4, 200),
        fetched(7, "GPTBot", "https://blog.a.test/private/x", 2, 200),
    ])
    .await;
    let read = app.page(&owner.key, "/content-owners/robots", &[]).await;
    assert_eq!(read["fetches"], json!({"allowed": 2, "disallowed": 2, "unknown": 2, "other_disallowed": 0}), "{read}");
    let last = schemas::instant::text(DateTime::from_timestamp_millis(NEW_YEAR_MS + 2 * DAY_MS + 3_600_000).unwrap());
    let item = json!({"host": "a.test", "path": "/private/x", "bot": "GPTBot", "operator": "OpenAI", "purpose": "training",
        "fetches": 2, "last_fetch": last, "rule": "Disallow: /private/", "rule_line": 2});
    assert_eq!((&read["items"], &read["total"]), (&json!([item]), &json!(1)));
    assert_eq!((&read["robots"][0]["host"], &read["robots"][0]["state"]), (&json!("a.test"), &json!("found")));
    let filtered = app.page(&owner.key, "/content-owners/robots", &[("bot", "CCBot")]).await;
    assert_eq!((&filtered["fetches"]["allowed"], &filtered["total"]), (&json!(1), &json!(0)), "{filtered}");
    let other = app.page(&stranger.key, "/content-owners/robots", &[]).await;
    assert_eq!((&other["robots"], &other["fetches"]["unknown"]), (&json!([]), &json!(0)), "{other}");
}
