//! robots.txt files of verified domains: their versions, and hosts that don't respond.

use crate::domains::{app_on, own, release};
use crate::fake_internet::FakeInternet;
use crate::test_app::{Requests as _, TestApp};
use chrono::TimeDelta;

/// A body, and the days between its first and last check.
type Version = (String, i64);

/// Returns the state of the check and, for each version, its body and the days on which it was seen.
async fn stored(app: &TestApp) -> (String, Vec<Version>) {
    let pool = &app.stores.pool;
    let state = sqlx::query_scalar("SELECT state FROM robots_checks WHERE site = 'test.a'").fetch_one(pool).await.unwrap();
    let versions = "SELECT body, (extract(epoch FROM last_seen - first_seen) / 86400)::bigint FROM robots_files \
                    WHERE site = 'test.a' ORDER BY first_seen";
    (state, sqlx::query_as(versions).fetch_all(pool).await.unwrap())
}

#[tokio::test]
async fn robots_files_are_checked_daily_and_kept_by_version() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (_, key) = app.org("owner").await;
    own(&app, &internet, &key, "a.test").await;
    let (one, other) = ("User-agent: *\nDisallow: /a\n", "User-agent: *\nDisallow: /b\n");
    let version = |body: &str, days: i64| (body.to_owned(), days);
    let rounds: [(&str, u16, &str, &str, Vec<Version>); 6] = [
        ("a.test", 200, one, "found", vec![version(one, 0)]),
        ("a.test", 200, one, "found", vec![version(one, 1)]),
        ("a.test", 503, "busy", "unreachable", vec![version(one, 1)]),
        ("a.test", 200, other, "found", vec![version(one, 1), version(other, 0)]),
        ("a.test", 404, "none", "missing", vec![version(one, 1), version(other, 0), version("", 0)]),
        ("a.test", 200, one, "found", vec![version(one, 1), version(other, 0), version("", 0), version(one, 0)]),
    ];
    for (day, (host, status, body, state, versions)) in rounds.into_iter().enumerate() {
        internet.publish_page(&format!("{host}/robots.txt"), status, body);
        assert_eq!(app.state.check_robots_files().await.unwrap(), 1, "day {day}");
        assert_eq!(app.state.check_robots_files().await.unwrap(), 0, "one check a day");
        assert_eq!(stored(&app).await, (state.to_owned(), versions), "day {day}");
        app.clock.advance(TimeDelta::days(1));
    }
    // The domain redirects to its www. host.
    internet.publish_page("a.test/robots.txt", 301, "");
    internet.publish_page("www.a.test/robots.txt", 200, other);
    app.state.check_robots_files().await.unwrap();
    assert_eq!(stored(&app).await.1.last(), Some(&version(other, 0)));
}

#[tokio::test]
async fn robots_files_have_a_size_limit_and_end_with_the_domain() {
    let internet = FakeInternet::new().await;
    let app = app_on(&internet).await;
    let (_, key) = app.org("owner").await;
    let (domain, _) = (own(&app, &internet, &key, "a.test").await, own(&app, &internet, &key, "b.test").await);
    let pool = &app.stores.pool;
    let fill = "INSERT INTO robots_files SELECT 'test.a', $1 - make_interval(days => n), $1 - make_interval(days => n), repeat('x', 1000000) \
                FROM generate_series(1, 20) AS n";
    sqlx::query(fill).bind(app.clock.now()).execute(pool).await.unwrap();
    for host in ["a.test", "b.test"] {
        internet.publish_page(&format!("{host}/robots.txt"), 200, "User-agent: *\n");
    }
    app.state.check_robots_files().await.unwrap();
    let bytes = "SELECT sum(octet_length(body)) FROM robots_files";
    assert_eq!(app.count(bytes).await, 16_000_028, "the oldest versions are deleted");
    assert_eq!(release(&app, &key, &domain).await, 204);
    for (days, expected) in [(30, 16_000_028), (2, 14)] {
        app.clock.advance(TimeDelta::days(days));
        app.state.check_robots_files().await.unwrap();
        assert_eq!(app.count(bytes).await, expected);
    }
}
