//! Lookup of a domain's owner.

use crate::test_app::Query;
use query_api::ResolveSettings;
use reqwest::StatusCode;
use schemas::identity::OrgType;
use serde_json::json;
use service_kit::testing::TestReceiver;

#[tokio::test]
async fn resolves_the_longest_verified_suffix() {
    let app = Query::start().await;
    let seed = app.seed();
    let a = seed.owner_of("example.com").await;
    let b = seed.owner_of("blog.example.com").await;
    let pending = seed.org("Pending", OrgType::ContentOwner).await;
    seed.verify(pending.id, "pending.test").await;
    seed.verify(pending.id, "released.test").await;
    for change in ["verified_at = NULL WHERE domain = 'pending.test'", "released_at = now() WHERE domain = 'released.test'"] {
        sqlx::query(sqlx::AssertSqlSafe(format!("UPDATE domains SET {change}"))).execute(&app.stores.pool).await.unwrap();
    }
    let (a, b) = (Some((a.id, "example.com")), Some((b.id, "blog.example.com")));
    for (parameter, given, domain, owner) in [
        ("domain", "example.com", "example.com", a),
        ("domain", "Www.EXAMPLE.com.", "example.com", a),
        ("domain", "www.x.blog.example.com", "x.blog.example.com", b),
        ("domain", "www.www.example.com", "www.www.example.com", a),
        ("domain", "www.co.uk", "www.co.uk", None),
        ("url", "https://www.example.com/a", "example.com", a),
        ("domain", "example。com", "example.com", a),
        ("domain", "x.blog.example.com", "x.blog.example.com", b),
        ("domain", "notexample.com", "notexample.com", None),
        ("domain", "example.com.evil.test", "example.com.evil.test", None),
        ("domain", "com", "com", None),
        ("domain", "еxample.com", "xn--xample-2of.com", None),
        ("domain", "pending.test", "pending.test", None),
        ("domain", "released.test", "released.test", None),
        ("domain", "127.0.0.1", "127.0.0.1", None),
        ("domain", "localhost", "localhost", None),
        ("domain", "*.example.com", "*.example.com", None),
        ("domain", " https://example.com ", "https://example.com", None),
        ("domain", "' OR 1=1 --", "' OR 1=1 --", None),
        ("domain", "", "", None),
        ("url", "https://blog.example.com/a?b#c", "blog.example.com", b),
        ("url", "HTTP://user:pass@Example.com.:8080", "example.com", a),
        ("url", "https://example.com\\@evil.test/", "example.com", a),
        ("url", "https://example.com@evil.test/", "evil.test", None),
        ("url", "http://127.1/", "127.0.0.1", None),
        ("url", "http://localhost:8080/", "localhost", None),
    ] {
        let answer = app.read("", "/resolve", &[(parameter, given)]).await;
        let organization = owner.map(|(id, name)| json!({"id": id, "name": name}));
        let expected = json!({"domain": domain, "handled": owner.is_some(), "organization": organization});
        assert_eq!((answer.status, answer.body), (200, expected), "{given:?}");
    }
}

#[tokio::test]
async fn rs3_requires_exactly_one_of_domain_and_url() {
    let app = Query::start().await;
    app.seed().owner_of("example.com").await;
    let long = format!("https://example.com/{}", "a".repeat(9_000));
    let refused: [&[(&str, &str)]; 10] = [
        &[],
        &[("host", "example.com")],
        &[("domain", "example.com"), ("url", "https://example.com")],
        &[("domain", "example.com"), ("domain", "example.com")],
        &[("url", "")],
        &[("url", "example.com")],
        &[("url", "/a")],
        &[("url", "ftp://example.com/")],
        &[("url", "javascript:alert(1)")],
        &[("url", &long)],
    ];
    for query in refused {
        let (status, problem) = app.read("", "/resolve", query).await.problem();
        assert_eq!((status, &problem["code"]), (400, &"invalid_parameter".into()), "{query:?}");
    }
}

#[tokio::test]
async fn rs1_rs5_resolving_does_not_send_requests() {
    let canary = TestReceiver::canary().await;
    let app = Query::with(ResolveSettings { resolve_rate: 20 }).await;
    app.seed().owner_of("example.com").await;
    let inside = format!("http://{}/", canary.address);
    let named = format!("https://localhost:{}/.well-known/content-telemetry.json", canary.address.port());
    for url in [&inside, &named] {
        assert_eq!(app.read("", "/resolve", &[("url", url)]).await.body["handled"], false);
    }
    let (mut answered, mut refused) = (0, None);
    while refused.is_none() {
        let answer = app.read("", "/resolve", &[("domain", "example.com")]).await;
        match answer.status {
            200 => answered += 1,
            _ => refused = Some(answer.problem()),
        }
        assert!(answered < 100_000, "the rate was never exceeded");
    }
    let (status, problem) = refused.unwrap();
    assert_eq!((status, &problem["code"]), (429, &"too_many_requests".into()));
    assert!(answered >= 30, "{answered} at once");
    assert_eq!(canary.connects(), 0);
    assert_eq!(app.get_summary("", &[]).await.status, StatusCode::UNAUTHORIZED, "other routes have no such limit");
}
