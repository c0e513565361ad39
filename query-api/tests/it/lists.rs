//! Items of lists, and access to them.

use crate::test_app::{Observation, Query, fetch_on, platform};
use reqwest::StatusCode;
use schemas::event::SourceRole::{Agent, Edge, Index, Origin};
use schemas::identity::{OrgType, Scope};
use serde_json::json;
use uuid::Uuid;

/// All of an owner's lists.
pub(crate) const OWNERS: [&str; 4] =
    ["/content-owners/events", "/content-owners/urls", "/content-owners/corroboration", "/content-owners/funnel"];

#[tokio::test]
async fn fetch_reported_by_four_observers_is_one_item() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let agents = fetch_on("www.example.com", 7).role(Agent).by(10).session(5).agent("alpha").after(3).id("agents-own");
    let agents = agents.url("https://www.example.com/a?q=1").data(r#"{"user_agent":"Bot/1.0","n":1,"com.bot.n":1.10}"#);
    let others = [
        fetch_on("www.example.com", 7).role(Edge).by(20).id("edges-own").data(r#"{"status":200}"#),
        fetch_on("www.example.com", 7).role(Index).by(22),
        fetch_on("www.example.com", 7).role(Origin).by(21).after(9),
    ];
    app.insert(&others).await;
    let before = app.page(&owner.key, "/content-owners/events", &[]).await;
    assert_eq!(before["items"][0]["event_id"], "edges-own");
    app.insert(&[agents]).await;
    let page = app.read(&owner.key, "/content-owners/events", &[]).await;
    let item = json!({
        "event_id": "agents-own",
        "session_id": Uuid::from_u128(5),
        "event_type": "content_retrieved",
        "content_url": "https://www.example.com/a?q=1",
        "event_timestamp": "2026-01-01T00:00:00.000Z",
        "event_data": {"com.bot.n": 1.10, "observers": ["agent", "edge", "origin", "index"], "user_agent": "Bot/1.0"},
        "platform_id": platform(10),
        "agent_id": "alpha",
        "outcome": "fetch",
        "bot": "",
        // No organization has this ID.
        "platform_name": "",
    });
    assert_eq!(page.body, json!({"items": [item], "total": 1, "limit": 100, "offset": 0}));
    assert!(page.raw.contains(r#""com.bot.n":1.10"#), "numbers are returned as reported");
}

#[tokio::test]
async fn r17_owners_never_see_conversations() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let own = |row: Observation| row.by_org(agent.id);
    let secret = r#"{"query_text":"planted","nested":{"response_text":"planted"},"position":"primary"}"#;
    let extra = r#"{"turn":{"query_text":"planted"},"terms_ref":"t"}"#;
    app.insert(&[
        // The gateway doesn't store a site for turns. Even with a site, only the agent's organization may read it.
        own(fetch_on("example.com", 1).role(Agent).named("turn_completed").data(secret)),
        own(Observation {
            extra: extra.to_owned(),
            ..fetch_on("example.com", 2).role(Agent).named("content_cited").data(secret)
        }),
    ])
    .await;
    for path in OWNERS.iter().chain(&["/content-owners/summary"]) {
        let answer = app.read(&owner.key, path, &[]).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.raw);
        assert!(!answer.raw.contains("planted") && !answer.raw.contains("turn_completed"), "{path}: {}", answer.raw);
    }
    let page = app.page(&owner.key, "/content-owners/events", &[]).await;
    let shown = json!({"position": "primary", "terms_ref": "t", "observers": ["agent"]});
    assert_eq!((&page["total"], &page["items"][0]["event_data"]), (&json!(1), &shown));
    let text = app.read(&agent.key, "/agent/events", &[]).await.raw;
    assert_eq!(text.matches("planted").count(), 5, "the reporter sees everything it sent: {text}");
}

#[tokio::test]
async fn r16_agents_read_only_their_own_reports() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let agents = [app.seed().org("P", OrgType::Agent).await, app.seed().org("Q", OrgType::Platform).await];
    let by = |org: &service_kit::testing::SeededOrg, row: Observation| row.by_org(org.id);
    app.insert(&[
        by(&agents[0], fetch_on("example.com", 1).role(Agent).session(1).id("p1")),
        by(&agents[1], fetch_on("example.com", 1).role(Agent).session(1).id("q1")),
        by(&agents[1], Observation { site: String::new(), ..fetch_on("other.test", 2).id("q2").after(-1) }),
        by(&agents[1], fetch_on("other.test", 3).role(Edge).id("q3").after(1_000)),
        by(&owner, fetch_on("example.com", 4).role(Origin).id("o1")),
        fetch_on("example.com", 5).id("x1"),
    ])
    .await;
    let ids = async |key: &str, query: &[(&str, &str)]| {
        let page = app.page(key, "/agent/events", query).await;
        page["items"].as_array().unwrap().iter().map(|item| item["event_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&agents[0].key, &[]).await, ["p1"]);
    assert_eq!(ids(&agents[1].key, &[]).await, ["q3", "q1", "q2"]);
    assert_eq!(ids(&agents[1].key, &[("since", "2026-01-01T00:00:00.001Z")]).await, ["q3"]);
    assert_eq!(ids(&agents[1].key, &[("until", "2026-01-01T00:00:01Z")]).await, ["q1", "q2"]);
    // A delegation doesn't extend the list.
    app.seed().delegate(owner.id, agents[0].id).await;
    assert_eq!(ids(&agents[0].key, &[]).await, ["p1"]);
    assert_eq!(app.read(&owner.key, "/agent/events", &[]).await.status, StatusCode::FORBIDDEN);
    assert_eq!(app.read("", "/agent/events", &[]).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn lists_return_the_same_errors_as_the_summary() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    app.seed().owner_of("other.test").await;
    let platform = app.seed().org("P", OrgType::Platform).await;
    let writer = app.seed().key(owner.id, OrgType::ContentOwner, &[Scope::TelemetryWrite]).await;
    let id = owner.id.to_string();
    let asked: [(&str, &[(&str, &str)]); 12] = [
        ("", &[]),
        (&writer, &[]),
        (&platform.key, &[]),
        (&platform.key, &[("delegated_from", &id)]),
        (&platform.key, &[("delegated_from", "x")]),
        (&owner.key, &[("domain", "other.test")]),
        (&owner.key, &[("domain", "nowhere.test")]),
        (&owner.key, &[("domain", "%")]),
        (&owner.key, &[("since", "' OR 1=1 --")]),
        (&owner.key, &[("since", "2026-01-02"), ("until", "2026-01-01")]),
        (&owner.key, &[("until", "2026-01-01T00:00:00")]),
        (&owner.key, &[("since", "2026-01-01"), ("since", "2026-01-01")]),
    ];
    for (key, query) in asked {
        let expected = app.get_summary(key, query).await.problem();
        assert!((400..500).contains(&expected.0), "{query:?}");
        for path in OWNERS {
            assert_eq!(app.read(key, path, query).await.problem(), expected, "{path} {query:?}");
        }
    }
}
