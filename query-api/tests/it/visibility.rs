//! Whose rows a key sees.

use crate::test_app::{TestApp, seen};
use reqwest::StatusCode;
use schemas::identity::{OrgType, Scope};
use schemas::site::Site;

#[tokio::test]
async fn an_owner_sees_its_domains_and_their_subdomains_on_label_boundaries_only() {
    let app = TestApp::new().await;
    let a = app.seed().owner_of("example.com").await;
    let b = app.seed().owner_of("other.test").await;
    let hosts = ["example.com", "news.example.com", "a.b.example.com"];
    let strangers =
        ["notexample.com", "example-x.com", "example.com.evil.test", "example.co", "x.example.community", "other.test"];
    let rows: Vec<_> = hosts.iter().chain(&strangers).zip(1..).map(|(host, key)| seen(host, key)).collect();
    app.insert(&rows).await;
    assert_eq!(app.total(&a.key, &[]).await, 3);
    assert_eq!(app.total(&b.key, &[]).await, 1);
    for (domain, expected) in
        [("example.com", 3), ("EXAMPLE.com.", 3), ("news.example.com", 1), ("b.example.com", 1), ("none.example.com", 0)]
    {
        let summary = app.summary(&a.key, &[("domain", domain)]).await;
        assert_eq!(summary.total_events, expected, "{domain}");
        assert_eq!(summary.domains, [domain.to_lowercase().trim_end_matches('.')]);
    }
}

#[tokio::test]
async fn e5_domain_filter_ignores_leading_www() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("www.example.com").await;
    app.insert(&[seen("www.example.com", 1), seen("example.com", 2), seen("blog.example.com", 3)]).await;
    for domain in ["example.com", "www.example.com", "WWW.example.com."] {
        let summary = app.summary(&owner.key, &[("domain", domain)]).await;
        assert_eq!((summary.total_events, summary.domains), (3, vec!["example.com".to_owned()]), "{domain}");
    }
    assert_eq!(app.total(&owner.key, &[("domain", "www.blog.example.com")]).await, 1);
    assert_eq!(app.ask(&owner.key, &[("domain", "www.com")]).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_subdomain_that_another_owner_verified_is_carved_out_and_an_own_one_inside_it_is_not() {
    let app = TestApp::new().await;
    let a = app.seed().owner_of("example.com").await;
    let b = app.seed().owner_of("blog.example.com").await;
    let hosts = ["example.com", "blog.example.com", "x.blog.example.com", "deep.blog.example.com", "y.deep.blog.example.com"];
    let rows: Vec<_> = hosts.iter().zip(1..).map(|(host, key)| seen(host, key)).collect();
    app.insert(&rows).await;
    assert_eq!((app.total(&a.key, &[]).await, app.total(&b.key, &[]).await), (1, 4));

    app.seed().verify(a.id, "deep.blog.example.com").await;
    assert_eq!((app.total(&a.key, &[]).await, app.total(&b.key, &[]).await), (3, 2));
    let summary = app.summary(&a.key, &[]).await;
    assert_eq!(summary.domains, ["deep.blog.example.com", "example.com"]);
    assert_eq!(app.total(&a.key, &[("domain", "example.com")]).await, 3);
    assert_eq!(app.total(&a.key, &[("domain", "deep.blog.example.com")]).await, 2);
    assert_eq!(app.total(&b.key, &[("domain", "blog.example.com")]).await, 2);
    for (key, domain) in [(&a.key, "blog.example.com"), (&a.key, "x.blog.example.com"), (&b.key, "deep.blog.example.com")] {
        assert_eq!(app.ask(key, &[("domain", domain)]).await.status, StatusCode::FORBIDDEN, "{domain}");
    }
}

#[tokio::test]
async fn an_owner_of_many_domains_beside_many_of_another_is_read_like_any_other() {
    let app = TestApp::new().await;
    let a = app.seed().owner_of("example.com").await;
    let b = app.seed().owner_of("other.test").await;
    // More hosts than a statement names one by one, and more text than one parameter may hold.
    let long = ["l".repeat(60), "m".repeat(60), "n".repeat(60)];
    let beneath = format!("{}.example.com", long.join("."));
    let reversed = Site::from_domain(&beneath).unwrap();
    let foreign = (format!("n%s.{beneath}"), format!("{}.n%s", reversed.as_str()));
    let own = ("n%s.a.test".to_owned(), "test.a.n%s".to_owned());
    for (org, (domain, site), count) in [(a.id, own, 150), (b.id, foreign, 1_500)] {
        sqlx::query(
            "INSERT INTO domains (organization_id, domain, site, verified_at, visible_from) \
             SELECT $1, format($2, n), format($3, n), now(), '2026-01-01T00:00:00Z' FROM generate_series(1, $4) n",
        )
        .bind(org.0)
        .bind(domain)
        .bind(site)
        .bind(count)
        .execute(&app.stores.pool)
        .await
        .unwrap();
    }
    let foreign = [format!("n1.{beneath}"), format!("n1500.{beneath}"), format!("x.n7.{beneath}")];
    let own = ["example.com", "n1.a.test", "n150.a.test", "x.n9.a.test", &format!("n1501.{beneath}"), &beneath];
    let nobodys = ["a.test", "n151.a.test", "n1-x.a.test"];
    let hosts: Vec<&str> = own.into_iter().chain(nobodys).chain(foreign.iter().map(String::as_str)).collect();
    let rows: Vec<_> = hosts.iter().zip(1..).map(|(host, key)| seen(host, key)).collect();
    app.insert(&rows).await;
    app.insert(&[seen("n2.a.test", 99).after(-1)]).await;
    let summary = app.summary(&a.key, &[]).await;
    assert_eq!((summary.total_events, summary.domains.len()), (6, 151));
    assert_eq!(app.total(&b.key, &[]).await, 3);
    assert_eq!(app.total(&a.key, &[("domain", "example.com")]).await, 3);
}

#[tokio::test]
async fn a_registered_domain_shows_nothing_until_it_is_verified_and_a_lost_one_nothing_from_then_on() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[seen("example.com", 1)]).await;
    assert_eq!(app.total(&owner.key, &[]).await, 1);
    for change in ["SET released_at = now()", "SET released_at = NULL, verified_at = NULL"] {
        let statement = format!("UPDATE domains {change}");
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&app.stores.pool).await.unwrap();
        let summary = app.summary(&owner.key, &[]).await;
        assert_eq!((summary.total_events, summary.domains.len()), (0, 0), "{change}");
        assert_eq!(app.ask(&owner.key, &[("domain", "example.com")]).await.status, StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn a_domain_that_is_not_the_callers_is_refused_the_same_whether_it_exists_or_not() {
    let app = TestApp::new().await;
    let a = app.seed().owner_of("example.com").await;
    app.seed().owner_of("other.test").await;
    app.insert(&[seen("example.com", 1), seen("other.test", 2)]).await;
    let unknown = app.ask(&a.key, &[("domain", "unknown.test")]).await.problem();
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
        assert_eq!(app.ask(&a.key, &[("domain", domain)]).await.problem(), unknown, "{domain:?}");
    }
    // Of several spellings of one's own domain each one is one's own.
    for domain in ["example.com", "Example.COM", "example.com.", "example。com", "ｅxample.com"] {
        assert_eq!(app.total(&a.key, &[("domain", domain)]).await, 1, "{domain:?}");
    }
}

#[tokio::test]
async fn only_a_valid_key_with_telemetry_read_reads() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let writer = app.seed().key(owner.id, OrgType::ContentOwner, &[Scope::TelemetryWrite, Scope::IdentityRead]).await;
    let never_issued = schemas::secrets::PlainApiKey::mint(OrgType::ContentOwner);
    assert_eq!(app.ask(&owner.key, &[]).await.status, StatusCode::OK);

    let stranger = app.ask("", &[]).await.problem();
    assert_eq!(stranger.0, StatusCode::UNAUTHORIZED);
    for key in ["nonsense", never_issued.reveal(), &owner.key.to_uppercase()] {
        assert_eq!(app.ask(key, &[]).await.problem(), stranger);
    }
    let (status, problem) = app.ask(&writer, &[]).await.problem();
    assert_eq!((status, &problem["code"]), (StatusCode::FORBIDDEN, &"missing_scope".into()));

    app.seed().revoke_keys(owner.id).await;
    assert_eq!(app.ask(&owner.key, &[]).await.problem(), stranger, "a revoked key is a stranger at once");
}

#[tokio::test]
async fn no_other_method_or_spelling_of_the_path_gets_around_the_key() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    for path in ["/content-owners/summary/", "//content-owners/summary", "/Content-Owners/summary", "/content-owners/SUMMARY"] {
        assert_eq!(app.get("", path, &[]).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let url = format!("{}/content-owners/summary", app.server.url);
    let http = service_kit::testing::client();
    assert_eq!(http.head(&url).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    assert_eq!(http.post(&url).header("x-api-key", &owner.key).send().await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(http.delete(&url).send().await.unwrap().status(), StatusCode::METHOD_NOT_ALLOWED);
}
