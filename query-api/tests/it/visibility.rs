//! Which rows a key may read.

use crate::test_app::{Query, fetch_on};
use reqwest::StatusCode;

#[tokio::test]
async fn e5_domain_filter_ignores_leading_www() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("www.example.com").await;
    app.insert(&[fetch_on("www.example.com", 1), fetch_on("example.com", 2), fetch_on("blog.example.com", 3)]).await;
    for domain in ["example.com", "www.example.com", "WWW.example.com."] {
        let summary = app.summary(&owner.key, &[("domain", domain)]).await;
        assert_eq!((summary.total_events, summary.domains), (3, vec!["example.com".to_owned()]), "{domain}");
    }
    assert_eq!(app.total(&owner.key, &[("domain", "www.blog.example.com")]).await, 1);
    assert_eq!(app.get_summary(&owner.key, &[("domain", "www.com")]).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn unverified_and_released_domains_return_no_data() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[fetch_on("example.com", 1)]).await;
    assert_eq!(app.total(&owner.key, &[]).await, 1);
    for change in ["SET released_at = now()", "SET released_at = NULL, verified_at = NULL"] {
        let statement = format!("UPDATE domains {change}");
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&app.stores.pool).await.unwrap();
        let summary = app.summary(&owner.key, &[]).await;
        assert_eq!((summary.total_events, summary.domains.len()), (0, 0), "{change}");
        assert_eq!(app.get_summary(&owner.key, &[("domain", "example.com")]).await.status, StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn foreign_and_unknown_domains_get_the_same_403() {
    let app = Query::start().await;
    let a = app.seed().owner_of("example.com").await;
    app.seed().owner_of("other.test").await;
    app.insert(&[fetch_on("example.com", 1), fetch_on("other.test", 2)]).await;
    let unknown = app.get_summary(&a.key, &[("domain", "unknown.test")]).await.problem();
    assert_eq!(unknown.0, StatusCode::FORBIDDEN);
    for domain in [
        "other.test",
        "OTHER.TEST.",
        "www.other.test",
        "other.test\0",
        "other.test,example.com",
        "example.com,other.test",
        "com",
        "test",
        "*.example.com",
        "%.example.com",
        "_.example.com",
        "%",
        "_",
        "",
        " ",
        ".",
        "..",
        ".example.com",
        "example.com..",
        "example..com",
        "example.com/",
        "https://example.com",
        "example.com:443",
        "user@example.com",
        "127.0.0.1",
        "[::1]",
        "localhost",
        "notexample.com",
        "example.com.evil.test",
        "' OR 1=1 --",
        "example.com' OR '1'='1",
        "example.com\\",
        "example.com\\' OR 1=1 --",
        "{site_0:String}",
        "example.com) OR (1=1",
        "com.example",
        "example.com\n",
        "еxample.com",
    ] {
        assert_eq!(app.get_summary(&a.key, &[("domain", domain)]).await.problem(), unknown, "{domain:?}");
    }
    // All spellings of an own domain are accepted.
    for domain in ["example.com", "Example.COM", "example.com.", "example。com", "ｅxample.com"] {
        assert_eq!(app.total(&a.key, &[("domain", domain)]).await, 1, "{domain:?}");
    }
}
