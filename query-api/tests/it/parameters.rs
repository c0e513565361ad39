//! Query strings: rejected and returned parameters.

use crate::lists::OWNERS;
use crate::statement_settings::DESCRIBED;
use crate::test_app::{TestApp, fetch_on};
use reqwest::StatusCode;
use schemas::identity::OrgType;
use serde_json::Value;
use std::collections::BTreeSet;

#[tokio::test]
async fn rejects_repeated_parameters() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    for name in ["since", "until", "domain", "delegated_from", "seen_by", "unknown"] {
        let answer = app.get_summary(&owner.key, &[(name, "2026-01-01"), (name, "2026-01-01")]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}");
    }
    let stranger = app.get("", "/content-owners/summary?since=1&since=2", &[]).await;
    assert_eq!(stranger.status, StatusCode::UNAUTHORIZED, "authentication comes first");
}

/// Returns the parameters of a read in the OpenAPI document.
fn described(paths: &Value, path: &str) -> BTreeSet<String> {
    let parameters = paths[path]["get"]["parameters"].as_array().unwrap().iter();
    parameters.filter_map(|parameter| parameter["name"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn rejects_and_names_unsupported_parameters() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let paths = serde_json::from_str::<Value>(DESCRIBED).unwrap()["paths"].clone();
    let reads: Vec<&String> = paths.as_object().unwrap().keys().filter(|path| !path.contains("/api/")).collect();
    let mut names: BTreeSet<String> = reads.iter().flat_map(|path| described(&paths, path)).collect();
    names.extend(["query".to_owned(), "param_site_0".to_owned()]);
    assert_eq!((reads.len(), names.len()), (15, 23), "{names:?}");
    for path in reads {
        let key = if path.starts_with("/content-owners/") { &owner.key } else { &agent.key };
        let target = path.replace("{id}", "x").replace("{token}", "x");
        for name in names.difference(&described(&paths, path)) {
            let (status, problem) = app.get(key, &target, &[(name.as_str(), "")]).await.problem();
            assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &"invalid_parameter".into()), "{path} {name}");
            let said = problem["detail"].as_str().unwrap();
            assert!(said == format!("{name} is not supported here.") || said.starts_with("organization_id works only"), "{said}");
        }
    }
    let (status, _) = app.get("", "/agent/events", &[("domain", "example.com")]).await.problem();
    assert_eq!(status, StatusCode::UNAUTHORIZED, "authentication comes first");
}

#[tokio::test]
async fn r9_lists_reject_bad_limits_and_clamp_large_ones() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let lists = OWNERS.map(|path| (path, &owner.key)).into_iter().chain([("/agent/events", &agent.key)]);
    for (path, key) in lists {
        let refused: [&[(&str, &str)]; 4] =
            [&[("limit", "0")], &[("limit", "x")], &[("offset", "-1")], &[("limit", "1"), ("limit", "1")]];
        for query in refused {
            assert_eq!(app.get(key, path, query).await.status, StatusCode::BAD_REQUEST, "{path} {query:?}");
        }
        assert_eq!(app.page(key, path, &[("limit", "1001")]).await["limit"], 1_000, "{path}");
        let default = app.page(key, path, &[]).await;
        assert_eq!(default["limit"], if path == "/content-owners/urls" { 20 } else { 100 }, "{path}");
    }
}

#[tokio::test]
async fn r10_pages_beyond_the_end_are_empty_with_the_total() {
    let app = TestApp::new().await;
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
