//! Query strings: what is refused, what is ignored, what is echoed.

use crate::lists::OWNERS;
use crate::test_app::{TestApp, seen};
use reqwest::StatusCode;
use schemas::identity::OrgType;

#[tokio::test]
async fn a_period_is_echoed_in_the_one_format_of_instants_or_refused() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let given = [("since", "2026-01-01T00:00:00.5+05:00"), ("until", "2026-01-31")];
    let summary = app.summary(&owner.key, &given).await;
    assert_eq!(summary.period_start.as_deref(), Some("2025-12-31T19:00:00.500Z"));
    assert_eq!(summary.period_end.as_deref(), Some("2026-01-31"));
    // A plus that was not encoded reads as a space.
    let unencoded = app.get(&owner.key, "/content-owners/summary?since=2026-01-01T00:00:00+05:00", &[]).await;
    assert_eq!(unencoded.json()["period_start"], "2025-12-31T19:00:00.000Z");
    for (since, until) in [
        ("2026-01-02", "2026-01-01"),
        ("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z"),
        ("", "2026-01-01"),
        ("2026-13-01", "2026-01-01"),
        ("2026-01-01", "1"),
        ("2026-01-01T00:00:00", "2026-01-02"),
        ("2026-01-01' OR 1=1 --", "2026-01-02"),
        ("{from:Int64}", "now()"),
    ] {
        let (status, problem) = app.ask(&owner.key, &[("since", since), ("until", until)]).await.problem();
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &"invalid_parameter".into()), "{since} {until}");
    }
}

#[tokio::test]
async fn unknown_parameters_are_ignored_and_repeated_ones_refused() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[seen("example.com", 1)]).await;
    assert_eq!(app.total(&owner.key, &[("limit", "x"), ("param_site_0", "com.other"), ("query", "DROP TABLE events")]).await, 1);
    for name in ["since", "until", "domain", "delegated_from", "seen_by"] {
        let answer = app.ask(&owner.key, &[(name, "2026-01-01"), (name, "2026-01-01")]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}");
    }
    let stranger = app.get("", "/content-owners/summary?since=1&since=2", &[]).await;
    assert_eq!(stranger.status, StatusCode::UNAUTHORIZED, "who asks is decided first");
}

#[tokio::test]
async fn a_parameter_of_other_reads_is_refused_where_it_would_be_taken_for_heard() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    app.seed().delegate(owner.id, agent.id).await;
    app.insert(&[seen("example.com", 1), seen("other.test", 2).of(agent.id)]).await;
    let grantor = owner.id.to_string();
    let of_owners =
        [("domain", "example.com"), ("delegated_from", &grantor), ("seen_by", &grantor), ("by", "url"), ("split", "type")];
    let of_owners = of_owners.into_iter().flat_map(|given| [given, (given.0, "")]);
    let mut asked: Vec<_> = of_owners.map(|given| ("/agent/events", &agent.key, given)).collect();
    let is_split =
        |path: &&str| ["/content-owners/corroboration", "/content-owners/funnel", "/content-owners/urls"].contains(path);
    let unsplit = OWNERS.into_iter().filter(|path| !is_split(path)).chain(["/content-owners/summary"]);
    asked.extend(unsplit.map(|path| (path, &owner.key, ("by", "agent"))));
    asked.extend(OWNERS.into_iter().chain(["/content-owners/summary"]).map(|path| (path, &owner.key, ("split", "agent"))));
    for name in ["domain", "delegated_from", "seen_by"] {
        asked.extend(["/agent/summary", "/agent/series"].map(|path| (path, &agent.key, (name, "example.com"))));
    }
    asked.extend(["by", "split"].map(|name| ("/agent/summary", &agent.key, (name, "day"))));
    let unsorted = ["/content-owners/events", "/content-owners/summary", "/content-owners/coverage"];
    asked.extend(unsorted.map(|path| (path, &owner.key, ("sort", "total_events"))));
    asked.extend(["/agent/events", "/agent/summary", "/agent/series"].map(|path| (path, &agent.key, ("sort", "day"))));
    for name in ["event_type", "agent_id", "platform_id", "reported_by", "path"] {
        let whole = ["/content-owners/summary", "/content-owners/series", "/content-owners/coverage"];
        let narrowed = match name {
            "reported_by" => "/agent/events",
            "path" => "/content-owners/urls",
            _ => "/content-owners/events",
        };
        let owners = OWNERS.into_iter().chain(whole).map(|path| (path, &owner.key, (name, "self")));
        let agents = ["/agent/events", "/agent/summary", "/agent/series"].map(|path| (path, &agent.key, (name, "")));
        asked.extend(owners.chain(agents).filter(|(path, ..)| *path != narrowed));
    }
    assert_eq!(asked.len(), 31 + 5 * 9);
    for (path, key, (name, value)) in asked {
        let (status, problem) = app.get(key, path, &[(name, value)]).await.problem();
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &"invalid_parameter".into()), "{path} {name}");
        assert_eq!(problem["detail"], format!("{name} is not supported here."), "{path}");
        assert_eq!(app.page(key, path, &[("as_of", "now")]).await["items"].as_array().map(Vec::len).unwrap_or(1), 1, "{path}");
    }
    let (status, _) = app.get(&owner.key, "/content-owners/crawlers", &[("sort", "bot")]).await.problem();
    assert_eq!(status, StatusCode::BAD_REQUEST, "bots are told in one order");
    let (status, _) = app.get("", "/agent/events", &[("domain", "example.com")]).await.problem();
    assert_eq!(status, StatusCode::UNAUTHORIZED, "who asks is decided first");
}

#[tokio::test]
async fn who_reported_is_self_or_other_and_whoever_may_not_read_is_told_so_as_without_it() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    for bad in ["", "Self", "others", "self,other", "' OR 1=1 --", "\0"] {
        let (status, problem) = app.get(&agent.key, "/agent/events", &[("reported_by", bad)]).await.problem();
        assert_eq!((status, &problem["code"]), (StatusCode::BAD_REQUEST, &"invalid_parameter".into()), "{bad}");
        assert_eq!(problem["detail"], "reported_by must be one of: self, other.", "{bad}");
    }
    let twice = app.get(&agent.key, "/agent/events", &[("reported_by", "self"), ("reported_by", "other")]).await;
    assert_eq!(twice.status, StatusCode::BAD_REQUEST);
    for (key, status) in [("", StatusCode::UNAUTHORIZED), (owner.key.as_str(), StatusCode::FORBIDDEN)] {
        let whole = app.get(key, "/agent/events", &[]).await.problem();
        assert_eq!(whole.0, status);
        for reported_by in ["self", "other"] {
            assert_eq!(app.get(key, "/agent/events", &[("reported_by", reported_by)]).await.problem(), whole);
        }
    }
}
