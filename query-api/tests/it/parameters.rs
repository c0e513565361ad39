//! Query strings: rejected and returned parameters.

use crate::lists::OWNERS;
use crate::test_app::{Query, TestApp, fetch_on, platform};
use reqwest::StatusCode;
use schemas::bots::Purpose;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::identity::OrgType;
use schemas::openapi::{Surface, document};
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[tokio::test]
async fn rejects_repeated_parameters() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    for name in ["since", "until", "domain", "delegated_from", "seen_by", "unknown"] {
        let answer = app.get_summary(&owner.key, &[(name, "2026-01-01"), (name, "2026-01-01")]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}");
    }
    let stranger = app.read("", "/content-owners/summary?since=1&since=2", &[]).await;
    assert_eq!(stranger.status, StatusCode::UNAUTHORIZED, "authentication comes first");
}

/// Returns a read's parameters in the OpenAPI document.
fn described(paths: &Value, path: &str) -> BTreeSet<String> {
    let parameters = paths[path]["get"]["parameters"].as_array().unwrap().iter();
    parameters.filter_map(|parameter| parameter["name"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn errors_name_unsupported_parameters() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let paths = document(&[Surface::Query])["paths"].clone();
    let has_parameters = |path: &&String| paths[path.as_str()]["get"]["parameters"].is_array();
    let reads: Vec<&String> =
        paths.as_object().unwrap().keys().filter(has_parameters).filter(|path| !path.starts_with("/operator/")).collect();
    let mut names: BTreeSet<String> = reads.iter().flat_map(|path| described(&paths, path)).collect();
    names.extend(["query".to_owned(), "param_site_0".to_owned()]);
    assert_eq!((reads.len(), names.len()), (22, 34), "{names:?}");
    for path in reads {
        let key = if path.starts_with("/content-owners/") { &owner.key } else { &agent.key };
        let target = path.replace("{id}", "x").replace("{token}", "x");
        for name in names.difference(&described(&paths, path)) {
            let (status, problem) = app.read(key, &target, &[(name.as_str(), "")]).await.problem();
            assert_eq!((status, &problem["code"]), (400, &"invalid_parameter".into()), "{path} {name}");
            let said = problem["detail"].as_str().unwrap();
            assert!(said == format!("{name} is not supported here.") || said.starts_with("organization_id works only"), "{said}");
        }
    }
    let (status, _) = app.read("", "/agent/events", &[("domain", "example.com")]).await.problem();
    assert_eq!(status, StatusCode::UNAUTHORIZED, "authentication comes first");
}

#[tokio::test]
async fn r9_lists_reject_bad_limits_and_clamp_large_ones() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let lists = OWNERS.map(|path| (path, &owner.key)).into_iter().chain([("/agent/events", &agent.key)]);
    for (path, key) in lists {
        let refused: [&[(&str, &str)]; 4] =
            [&[("limit", "0")], &[("limit", "x")], &[("offset", "-1")], &[("limit", "1"), ("limit", "1")]];
        for query in refused {
            assert_eq!(app.read(key, path, query).await.status, StatusCode::BAD_REQUEST, "{path} {query:?}");
        }
        assert_eq!(app.page(key, path, &[("limit", "1001")]).await["limit"], 1_000, "{path}");
        let default = app.page(key, path, &[]).await;
        assert_eq!(default["limit"], if path == "/content-owners/urls" { 20 } else { 100 }, "{path}");
    }
}

#[tokio::test]
async fn r10_pages_beyond_the_end_are_empty_but_have_the_total() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[fetch_on("example.com", 1), fetch_on("example.com", 2)]).await;
    for path in OWNERS {
        let total = app.page(&owner.key, path, &[]).await["total"].clone();
        for offset in ["2", "4000000000000000000"] {
            let page = app.page(&owner.key, path, &[("offset", offset)]).await;
            assert_eq!((page["items"].as_array().unwrap().len(), &page["total"]), (0, &total), "{path} {offset}");
            assert_eq!(page["offset"].to_string(), offset);
        }
    }
}

/// A fetch reported by an agent and an edge, a failed fetch reported only by an edge, and a citation.
async fn filtered_events(app: &TestApp) {
    let gptbot = Crawler {
        bot: "GPTBot".to_owned(),
        operator: "OpenAI".to_owned(),
        purpose: Some(Purpose::Training),
        verified: Some(true),
        response_status: 200,
        ..Crawler::default()
    };
    let claudebot = Crawler {
        bot: "ClaudeBot".to_owned(),
        operator: "Anthropic".to_owned(),
        purpose: Some(Purpose::Search),
        verified: Some(false),
        response_status: 404,
        ..Crawler::default()
    };
    let on = |key, path: &str| fetch_on("example.com", key).url(&format!("https://example.com{path}"));
    app.insert(&[
        on(1, "/blog/a").role(SourceRole::Agent).by(10).session(7).agent("alpha"),
        on(1, "/blog/a").role(SourceRole::Edge).by(20).crawler(gptbot),
        on(2, "/blog/b").role(SourceRole::Edge).by(20).crawler(claudebot),
        on(3, "/c").role(SourceRole::Agent).by(10).session(7).agent("alpha").named("content_cited"),
        on(4, "/c").role(SourceRole::Index).by(22),
    ])
    .await;
}

#[tokio::test]
async fn every_read_applies_filters_alike() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    filtered_events(&app).await;
    let platform = platform(10);
    for (name, value, expected) in [
        ("agent_id", "alpha", 2),
        ("agent_id", "", 2),
        ("bot", "GPTBot", 1),
        ("bot", "", 2),
        ("event_type", "content_cited", 1),
        ("evidence", "claimed", 1),
        ("evidence", "observed", 1),
        ("evidence", "corroborated", 1),
        ("evidence", "unknown", 1),
        ("operator", "Anthropic", 1),
        ("outcome", "failed", 1),
        ("path", "/blog/*", 2),
        ("path", "/c", 2),
        ("platform_id", &platform, 2),
        ("purpose", "search", 1),
        ("purpose", "unknown", 2),
        ("signature", "none", 4),
        ("signature", "valid", 0),
        ("source_role", "edge", 2),
        ("status", "4xx", 1),
        ("status", "200", 1),
        ("status", "0", 2),
        ("verified", "true", 1),
        ("verified", "unknown", 2),
    ] {
        let query = [(name, value)];
        assert_eq!(app.total(&owner.key, &query).await, expected, "{name}={value}");
        assert_eq!(app.page(&owner.key, "/content-owners/events", &query).await["total"], expected, "{name}={value}");
        let sum = async |path: &str, query: &[(&str, &str)], members: &[&str]| {
            let items = app.page(&owner.key, path, query).await["items"].as_array().unwrap().clone();
            let of = |item: &Value| members.iter().map(|member| item[*member].as_u64().unwrap()).sum::<u64>();
            items.iter().map(of).sum::<u64>()
        };
        for by in ["url", "section", "page,agent"] {
            let found = sum("/content-owners/urls", &[query[0], ("by", by)], &["total_events"]).await;
            assert_eq!(found, expected, "{name}={value} {by}");
        }
        for split in ["none", "evidence", "operator", "bot"] {
            let found = sum("/content-owners/series", &[query[0], ("split", split)], &["total_events"]).await;
            assert_eq!(found, expected, "{name}={value} {split}");
        }
        let funnel = sum("/content-owners/funnel", &query, &["retrieved", "cited"]).await;
        let fetches = sum("/content-owners/corroboration", &[query[0], ("by", "day")], &["retrievals"]).await;
        assert_eq!(funnel, expected, "{name}={value}");
        let narrowed = if name == "outcome" { 0 } else { app.total(&owner.key, &[query[0], ("outcome", "fetch")]).await };
        assert_eq!(fetches, narrowed, "{name}={value}");
        assert_eq!(app.read(&owner.key, "/content-owners/crawlers", &query).await.status, StatusCode::OK, "{name}={value}");
    }
}

#[tokio::test]
async fn pages_split_by_agent_name_the_agent_or_bot() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    filtered_events(&app).await;
    let read = app.page(&owner.key, "/content-owners/urls", &[("by", "page,agent"), ("sort", "content_url")]).await;
    let row = |item: &Value| ["content_url", "platform_id", "agent_id", "bot", "total_events"].map(|member| item[member].clone());
    let rows: Vec<_> = read["items"].as_array().unwrap().iter().map(row).collect();
    let agent = json!(platform(10));
    assert_eq!(
        json!(rows),
        json!([
            ["https://example.com/blog/a", agent, "alpha", "", 1],
            ["https://example.com/blog/b", "", "", "ClaudeBot", 1],
            ["https://example.com/c", "", "", "", 1],
            ["https://example.com/c", agent, "alpha", "", 1],
        ])
    );
}
