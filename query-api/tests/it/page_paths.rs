//! Pages by the path of their URL, and sections of them.

use crate::test_app::{TestApp, seen};
use reqwest::StatusCode;
use schemas::event::SourceRole;
use schemas::identity::OrgType;
use serde_json::{Value, json};

const URLS: &str = "/content-owners/urls";

/// Two retrievals of each page, in sessions of which the first is in all of them.
async fn app(pages: &[&str]) -> (TestApp, String) {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let rows = (0_u128..).zip(pages).flat_map(|(number, page)| {
        let host = page.split('/').nth(2).unwrap();
        let row = |key, session| seen(host, key).role(SourceRole::Agent).session(session).url(page);
        [row(2 * number, 1), row(2 * number + 1, number + 2)]
    });
    app.insert(&rows.collect::<Vec<_>>()).await;
    (app, owner.key)
}

fn names(page: &Value) -> Vec<&str> {
    let mut names: Vec<&str> =
        page["items"].as_array().unwrap().iter().map(|item| item["content_url"].as_str().unwrap()).collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn a_path_is_matched_to_the_letter_and_a_star_at_its_end_is_whatever_follows() {
    let host = "https://www.example.com";
    let pages =
        ["/", "/?q=/blog/a", "/blog", "/blog/a", "/blog/a?q=1", "/blog/%C3%A4", "/Blog/a", "/b_og/a", "/bl%25/a", "/blog/a\\"];
    let urls = pages.map(|page| format!("{host}{page}"));
    let (app, key) = app(&urls.each_ref().map(String::as_str)).await;
    for (path, expected) in [
        ("/", vec!["/", "/?q=/blog/a"]),
        ("/blog", vec!["/blog"]),
        ("/blog/", vec![]),
        ("/blog/a", vec!["/blog/a", "/blog/a?q=1"]),
        ("/blog/*", vec!["/blog/%C3%A4", "/blog/a", "/blog/a?q=1", "/blog/a\\"]),
        ("/blog*", vec!["/blog", "/blog/%C3%A4", "/blog/a", "/blog/a?q=1", "/blog/a\\"]),
        ("/BLOG/*", vec![]),
        ("/B*", vec!["/Blog/a"]),
        ("/b_og/*", vec!["/b_og/a"]),
        ("/%*", vec![]),
        ("/bl%*", vec!["/bl%25/a"]),
        ("/blog/a\\", vec!["/blog/a\\"]),
        ("/blog/.", vec![]),
        // A path is percent-encoded as URLs are, and as the list shows it.
        ("/blog/%C3%A4", vec!["/blog/%C3%A4"]),
        ("/blog/\u{e4}", vec![]),
        ("/blog/%c3*", vec![]),
    ] {
        let found = app.page(&key, URLS, &[("path", path), ("limit", "1000")]).await;
        let expected: Vec<String> = expected.iter().map(|page| format!("{host}{page}")).collect();
        assert_eq!(
            (names(&found), &found["total"]),
            (expected.iter().map(String::as_str).collect(), &json!(expected.len())),
            "{path}"
        );
    }
    let part = app.page(&key, URLS, &[("path", "/blog*"), ("limit", "2"), ("offset", "4")]).await;
    assert_eq!((part["items"].as_array().unwrap().len(), &part["total"]), (1, &json!(5)));
    for accept in ["text/csv", "application/x-ndjson"] {
        let (status, _, total, text) = app.get_as(accept, &key, &format!("{URLS}?path=/blog*")).await;
        assert_eq!((status, total.as_str()), (StatusCode::OK, "5"), "{accept}");
        assert_eq!(text.lines().count(), 5 + usize::from(accept == "text/csv"), "{accept}: {text}");
    }
    let all = app.page(&key, URLS, &[("limit", "1000")]).await;
    assert_eq!(app.page(&key, URLS, &[("path", "/*"), ("limit", "1000")]).await, all);
    assert_eq!(app.page(&key, URLS, &[("path", "/*"), ("by", "url"), ("limit", "1000")]).await, all);
}

#[tokio::test]
async fn rejects_invalid_paths_with_an_example() {
    let (app, key) = app(&["https://example.com/a"]).await;
    let slash = "path must start with a slash, for example /blog/a or /blog/*.";
    let star = "path can contain * only at its end, for example /blog/*.";
    let beyond = "path must not contain ? or #. Leave out the query and the fragment.";
    for (path, said) in [
        ("", slash),
        ("*", slash),
        ("blog/*", slash),
        ("https://example.com/blog/*", slash),
        ("/blog/*/a", star),
        ("/blog/**", star),
        ("/blog?q=1", beyond),
        ("/blog#a", beyond),
        ("/\0", "path must not contain NUL characters."),
    ] {
        let (status, problem) = app.get(&key, URLS, &[("path", path)]).await.problem();
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &json!("invalid_parameter")), "{path:?}");
        assert_eq!(problem["detail"], said, "{path:?}");
    }
    let twice = app.get(&key, &format!("{URLS}?path=/a&path=/b"), &[]).await;
    assert_eq!(twice.status, StatusCode::BAD_REQUEST);
    let (status, problem) = app.get(&key, URLS, &[("by", "agent")]).await.problem();
    assert_eq!((status, &problem["detail"]), (StatusCode::BAD_REQUEST, &json!("by must be one of: url, section.")));
    let other = app.seed().org("Agent", OrgType::Agent).await;
    assert_eq!(app.get("", URLS, &[("path", "a")]).await.status, StatusCode::UNAUTHORIZED, "who asks is decided first");
    assert_eq!(app.get(&other.key, URLS, &[("path", "/a")]).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_section_is_a_host_and_the_first_step_of_a_path_and_counts_a_session_once() {
    let pages = [
        "https://www.example.com/blog/a",
        "http://example.com/blog/b/c?q=/x/",
        "https://example.com/blog/",
        "https://example.com/blog",
        "https://example.com/",
        "https://example.com/?q=/a/b",
        "https://news.example.com/blog/a",
        "https://example.com/Blog/a",
        "https://example.com/b%2Fc/a",
    ];
    let (app, key) = app(&pages).await;
    let found = app.page(&key, URLS, &[("by", "section")]).await;
    let shown = |item: &Value| {
        let figures = ["total_events", "unique_sessions"].map(|name| item[name].as_u64().unwrap());
        (item["content_url"].as_str().unwrap().to_owned(), figures)
    };
    let sections: Vec<_> = found["items"].as_array().unwrap().iter().map(shown).collect();
    let expected = [
        ("https://example.com/", [6, 4]),
        ("https://example.com/blog/*", [6, 4]),
        ("https://example.com/Blog/*", [2, 2]),
        ("https://example.com/b%2Fc/*", [2, 2]),
        ("https://news.example.com/blog/*", [2, 2]),
    ];
    assert_eq!(sections, expected.map(|(name, figures)| (name.to_owned(), figures)));
    assert_eq!(found["total"], 5);
    let of_section = app.page(&key, URLS, &[("by", "section"), ("path", "/blog/*"), ("domain", "news.example.com")]).await;
    assert_eq!(names(&of_section), ["https://news.example.com/blog/*"]);
}
