//! R7: events from another owner's time with a subdomain stay hidden after that owner leaves.

use crate::test_app::{NEW_YEAR_MS, Query, TestApp, fetch_on};
use chrono::DateTime;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::site::Site;

/// Stores a domain's ownership between two times, in milliseconds after the new year. `None` means no end.
async fn owned(app: &TestApp, org: OrgId, domain: &str, from_ms: i64, until_ms: Option<i64>) {
    let at = |ms: i64| DateTime::from_timestamp_millis(NEW_YEAR_MS + ms).unwrap();
    sqlx::query("INSERT INTO domains (organization_id, domain, site, verified_at, visible_from, released_at) VALUES ($1, $2, $3, $4, $4, $5)")
        .bind(org.0)
        .bind(domain)
        .bind(Site::from_domain(domain).unwrap().as_str())
        .bind(at(from_ms))
        .bind(until_ms.map(at))
        .execute(&app.stores.pool)
        .await
        .unwrap();
}

#[tokio::test]
async fn r7_parent_owners_see_subdomains_after_their_owner_left() {
    let app = Query::start().await;
    let above = app.seed().owner_of("example.com").await;
    let former = app.seed().org("former", OrgType::ContentOwner).await;
    owned(&app, former.id, "blog.example.com", 1_000, Some(3_000)).await;
    owned(&app, former.id, "deep.blog.example.com", 1_000, Some(2_000)).await;
    let hosts = ["example.com", "news.example.com", "blog.example.com", "x.blog.example.com", "deep.blog.example.com"];
    let rows: Vec<_> = hosts
        .iter()
        .flat_map(|host| [0, 1_500, 2_999, 3_000].map(|ms| (*host, ms)))
        .zip(1..)
        .map(|((host, ms), key)| fetch_on(host, key).after(ms))
        .collect();
    app.insert(&rows).await;
    for (domain, expected) in [
        ("example.com", 11),
        ("news.example.com", 4),
        ("blog.example.com", 3),
        ("x.blog.example.com", 1),
        ("deep.blog.example.com", 1),
    ] {
        assert_eq!(app.total(&above.key, &[("domain", domain)]).await, expected, "{domain}");
    }
    assert_eq!(app.summary(&above.key, &[]).await.domains, ["example.com"], "former subdomains are not verified domains");
    assert_eq!(app.total(&former.key, &[]).await, 0, "former owners see nothing");

    // A new owner of the subdomain reads its events from the verification on, and the parent's owner no longer sees them.
    let new = app.seed().org("new", OrgType::ContentOwner).await;
    owned(&app, new.id, "blog.example.com", 3_000, None).await;
    assert_eq!((app.total(&above.key, &[]).await, app.total(&new.key, &[]).await), (8, 3));
}

#[tokio::test]
async fn parent_owners_see_subdomains_after_the_last_owner_left() {
    let app = Query::start().await;
    let above = app.seed().owner_of("example.com").await;
    for (name, from_ms, until_ms) in [("one", 1_000, 2_000), ("other", 3_000, 4_000)] {
        let former = app.seed().org(name, OrgType::ContentOwner).await;
        owned(&app, former.id, "blog.example.com", from_ms, Some(until_ms)).await;
    }
    let rows = [0, 1_500, 2_500, 3_999, 4_000].into_iter().zip(1..);
    let rows: Vec<_> = rows.map(|(ms, key)| fetch_on("blog.example.com", key).after(ms)).collect();
    app.insert(&rows).await;
    assert_eq!(app.total(&above.key, &[]).await, 1);
}
