//! What an item is, and whose it is.

use crate::test_app::{NEW_YEAR_MS, Observation, TestApp, platform, seen};
use reqwest::StatusCode;
use schemas::event::SourceRole::{Agent, Edge, Index, Origin};
use schemas::identity::{OrgType, Scope};
use serde_json::{Value, json};
use uuid::Uuid;

/// Every list of an owner.
pub(crate) const OWNERS: [&str; 4] =
    ["/content-owners/events", "/content-owners/urls", "/content-owners/corroboration", "/content-owners/funnel"];

#[tokio::test]
async fn a_retrieval_seen_by_four_is_one_item_as_its_agent_tells_it() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let agents = seen("www.example.com", 7).role(Agent).by(10).session(5).agent("alpha").after(3).id("agents-own");
    let agents = agents.url("https://www.example.com/a?q=1").data(r#"{"user_agent":"Bot/1.0","n":1,"com.bot.n":1.10}"#);
    let others = [
        seen("www.example.com", 7).role(Edge).by(20).id("edges-own").data(r#"{"status":200}"#),
        seen("www.example.com", 7).role(Index).by(22),
        seen("www.example.com", 7).role(Origin).by(21).after(9),
    ];
    app.insert(&others).await;
    let before = app.page(&owner.key, "/content-owners/events", &[]).await;
    assert_eq!(before["items"][0]["event_id"], "edges-own");
    app.insert(&[agents]).await;
    let page = app.get(&owner.key, "/content-owners/events", &[]).await;
    let item = json!({
        "event_id": "agents-own",
        "session_id": Uuid::from_u128(5),
        "event_type": "content_retrieved",
        "content_url": "https://www.example.com/a?q=1",
        "event_timestamp": "2026-01-01T00:00:00.000Z",
        "event_data": {"com.bot.n": 1.10, "observers": ["agent", "edge", "origin", "index"], "user_agent": "Bot/1.0"},
        "platform_id": platform(10),
        "agent_id": "alpha",
    });
    assert_eq!(page.json(), json!({"items": [item], "total": 1, "limit": 100, "offset": 0}));
    assert!(page.text.contains(r#""com.bot.n":1.10"#), "a number is shown as it was written");
}

#[tokio::test]
async fn r17_owners_never_see_conversations() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let own = |row: Observation| row.of(agent.id);
    let secret = r#"{"query_text":"planted","nested":{"response_text":"planted"},"position":"primary"}"#;
    let extra = r#"{"turn":{"query_text":"planted"},"terms_ref":"t"}"#;
    app.insert(&[
        // The gateway gives a turn no site; should a row have one, it is still nobody's but the agent's.
        own(seen("example.com", 1).role(Agent).named("turn_completed").data(secret)),
        own(Observation { extra: extra.to_owned(), ..seen("example.com", 2).role(Agent).named("content_cited").data(secret) }),
    ])
    .await;
    for path in OWNERS.iter().chain(&["/content-owners/summary"]) {
        let answer = app.get(&owner.key, path, &[]).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.text);
        assert!(!answer.text.contains("planted") && !answer.text.contains("turn_completed"), "{path}: {}", answer.text);
    }
    let page = app.page(&owner.key, "/content-owners/events", &[]).await;
    let shown = json!({"position": "primary", "terms_ref": "t", "observers": ["agent"]});
    assert_eq!((&page["total"], &page["items"][0]["event_data"]), (&json!(1), &shown));
    let text = app.get(&agent.key, "/agent/events", &[]).await.text;
    assert_eq!(text.matches("planted").count(), 5, "its reporter reads all of it back: {text}");
}

#[tokio::test]
async fn r16_agents_read_only_their_own_reports() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let agents = [app.seed().org("P", OrgType::Agent).await, app.seed().org("Q", OrgType::Platform).await];
    let by = |org: &service_kit::testing::SeededOrg, row: Observation| row.of(org.id);
    app.insert(&[
        by(&agents[0], seen("example.com", 1).role(Agent).session(1).id("p1")),
        by(&agents[1], seen("example.com", 1).role(Agent).session(1).id("q1")),
        by(&agents[1], Observation { site: String::new(), ..seen("other.test", 2).id("q2").after(-1) }),
        by(&agents[1], seen("other.test", 3).role(Edge).id("q3").after(1_000)),
        by(&owner, seen("example.com", 4).role(Origin).id("o1")),
        seen("example.com", 5).id("x1"),
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
    // An owner's grant does not widen it.
    app.seed().delegate(owner.id, agents[0].id).await;
    assert_eq!(ids(&agents[0].key, &[]).await, ["p1"]);
    assert_eq!(app.get(&owner.key, "/agent/events", &[]).await.status, StatusCode::FORBIDDEN);
    assert_eq!(app.get("", "/agent/events", &[]).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn every_list_refuses_as_the_summary_does() {
    let app = TestApp::new().await;
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
        let expected = app.ask(key, query).await.problem();
        assert!(expected.0.is_client_error(), "{query:?}");
        for path in OWNERS {
            assert_eq!(app.get(key, path, query).await.problem(), expected, "{path} {query:?}");
        }
    }
}

#[tokio::test]
async fn a_delegated_list_is_the_grantors_byte_for_byte_until_the_grant_ends() {
    let app = TestApp::new().await;
    let grantor = app.seed().owner_of("example.com").await;
    let partner = app.seed().org("Partner", OrgType::Platform).await;
    app.seed().delegate(grantor.id, partner.id).await;
    let rows: Vec<_> = (0..60_u128)
        .flat_map(|key| {
            let host = ["example.com", "news.example.com", "other.test"][usize::try_from(key % 3).unwrap()];
            let at = i64::try_from(key % 7).unwrap();
            [seen(host, key).role(Edge).after(at), seen(host, key).role(Agent).by(key % 4).session(key % 5).after(at + 1)]
        })
        .collect();
    app.insert(&rows).await;
    let id = grantor.id.to_string();
    let filters: [&[(&str, &str)]; 3] = [
        &[],
        &[("domain", "news.example.com"), ("limit", "3"), ("offset", "2")],
        &[("since", "2026-01-01T00:00:00.003Z"), ("until", "2026-01-01T00:00:00.006Z")],
    ];
    let split: [&[(&str, &str)]; 2] = [&[("by", "url")], &[("by", "day"), ("limit", "1")]];
    for path in OWNERS {
        let filters = filters.iter().chain(split.iter().filter(|_| path == "/content-owners/funnel"));
        for filter in filters.copied() {
            let own = app.get(&grantor.key, path, filter).await;
            assert_eq!(own.status, StatusCode::OK, "{path} {filter:?}: {}", own.text);
            assert_ne!(own.json()["total"], 0);
            let delegated = [filter, &[("delegated_from", id.as_str())]].concat();
            assert_eq!(own, app.get(&partner.key, path, &delegated).await, "{path} {filter:?}");
        }
    }
    // Also between two pages of one list (R5).
    sqlx::query("UPDATE delegations SET revoked_at = now()").execute(&app.stores.pool).await.unwrap();
    for path in OWNERS {
        let next = [("delegated_from", id.as_str()), ("limit", "3"), ("offset", "3")];
        assert_eq!(app.get(&partner.key, path, &next).await.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn corroboration_says_who_saw_each_retrieval_and_what_that_cannot_mean() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = |key| seen("example.com", key).role(Agent).by(10).session(1).agent("alpha");
    app.insert(&[
        agent(1),
        seen("example.com", 1).role(Edge).by(20),
        agent(2),
        agent(3),
        seen("example.com", 3).role(Index).by(22),
        seen("example.com", 4).role(Origin).by(21),
        seen("example.com", 5).role(Index).by(22),
        agent(6).named("content_cited"),
    ])
    .await;
    let answer = app.page(&owner.key, "/content-owners/corroboration", &[]).await;
    let item = |platform: &str, agent: &str, counts: [u64; 5]| {
        let [retrievals, both, claimed, servers, neither] = counts;
        json!({"day": "2026-01-01", "platform_id": platform, "agent_id": agent, "retrievals": retrievals, "seen_by_both": both,
               "claimed_by_agent_only": claimed, "seen_by_server_only": servers, "seen_by_neither": neither})
    };
    assert_eq!(answer["items"], json!([item(&platform(10), "alpha", [3, 1, 2, 0, 0]), item("", "", [2, 0, 0, 1, 1])]));
    assert_eq!((&answer["organization_id"], &answer["domains"]), (&json!(owner.id), &json!(["example.com"])));
    assert!(answer["note"].as_str().unwrap().contains("likely, but not certain"));
}

#[tokio::test]
async fn a_funnel_counts_each_content_event_once_by_agent_url_or_day() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let steps = ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged"];
    let rows: Vec<_> = (0..5_u128)
        .flat_map(|step| (0..=step).map(move |nth| (step, nth)))
        .map(|(step, nth)| {
            let row = seen("example.com", step * 10 + nth).role(Agent).by(10).session(1).agent("alpha");
            row.named(steps[4 - usize::try_from(step).unwrap()])
        })
        .chain([seen("example.com", 99).role(Edge).after(86_400_000), seen("example.com", 98).named("com.example.shared")])
        .collect();
    app.insert(&rows).await;
    let funnel = async |by: &str| app.page(&owner.key, "/content-owners/funnel", &[("by", by)]).await["items"].clone();
    let step = |item: Value, counts: [u64; 5]| {
        let [retrieved, grounded, cited, presented, engaged] = counts;
        let steps =
            json!({"retrieved": retrieved, "grounded": grounded, "cited": cited, "presented": presented, "engaged": engaged});
        let mut item = item;
        item.as_object_mut().unwrap().extend(steps.as_object().unwrap().clone());
        item
    };
    let alpha = json!({"platform_id": platform(10), "agent_id": "alpha"});
    let nobody = json!({"platform_id": "", "agent_id": ""});
    assert_eq!(funnel("agent").await, json!([step(alpha, [5, 4, 3, 2, 1]), step(nobody, [1, 0, 0, 0, 0])]));
    assert_eq!(funnel("url").await, json!([step(json!({"content_url": "https://example.com/"}), [6, 4, 3, 2, 1])]));
    let days = [step(json!({"day": "2026-01-02"}), [1, 0, 0, 0, 0]), step(json!({"day": "2026-01-01"}), [5, 4, 3, 2, 1])];
    assert_eq!(funnel("day").await, json!(days));
    let refused = app.get(&owner.key, "/content-owners/funnel", &[("by", "agent, url")]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(NEW_YEAR_MS % 86_400_000, 0, "the fixture begins a day");
}
