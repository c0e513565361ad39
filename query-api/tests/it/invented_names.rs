//! Reporters can make up event types and agents on others' hosts, but responses don't grow with them.

use crate::test_app::{Query, fetch_on};
use schemas::event::SourceRole::{Agent, Edge};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::size;

/// Maximum size of a response in bytes.
const MOST: usize = 200_000;
const READS: [&str; 8] = [
    "summary",
    "urls?limit=1000",
    "urls?by=section",
    "series?split=type",
    "series?split=agent",
    "crawlers",
    "funnel",
    "corroboration",
];
const OWN: [&str; 3] = ["/agent/summary", "/agent/series?split=type", "/agent/series?split=agent"];

fn sum(items: &Value, member: &str) -> u64 {
    items.as_array().unwrap().iter().map(|item| item[member].as_u64().unwrap()).sum()
}

#[tokio::test]
async fn invented_types_do_not_hide_the_owners_types() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let stranger = app.seed().org("Stranger", OrgType::Platform).await;
    let report = |key: u64, by, name: &str| {
        fetch_on("example.com", u128::from(key)).role(Edge).by_org(by).url("https://example.com/").named(name)
    };
    // Each invented type has more events than the owner's type, and its name sorts before it.
    let invented = (0..600).map(|key| report(key, stranger.id, &format!("com.a.t{}", key % 200)));
    // The second of the owner's types is reported by the stranger too.
    let own =
        [(1_000, owner.id, "com.example.own"), (1_001, owner.id, "com.example.two"), (1_002, stranger.id, "com.example.two")];
    app.insert(&invented.chain(own.map(|(key, by, name)| report(key, by, name))).collect::<Vec<_>>()).await;
    let count = |list: &Value, name: &str| {
        let of_type = |item: &&Value| item["event_type"] == name;
        list.as_array().unwrap().iter().find(of_type).map(|item| item["count"].as_u64().unwrap_or_default())
    };
    let summary = app.page(&owner.key, "/content-owners/summary", &[]).await;
    let pages = app.page(&owner.key, "/content-owners/urls", &[]).await;
    let series = app.page(&owner.key, "/content-owners/series", &[("split", "type")]).await;
    let types_of_page = &pages["items"][0]["event_types"];
    let listed = [&summary["events_by_type"], types_of_page, &series["items"]]
        .map(|list| ["com.example.own", "com.example.two"].map(|name| count(list, name)));
    assert_eq!(listed, [[Some(1), Some(2)], [Some(1), Some(2)], [Some(0), Some(0)]], "a series counts by bucket");
    assert_eq!((sum(&summary["events_by_type"], "count"), sum(types_of_page, "count")), (603, 603));
}

#[tokio::test]
async fn f77_made_up_types_and_agents_do_not_grow_responses() {
    let count = size("INVENTED_NAMES", 3_000) as u64;
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let reporter = app.seed().org("Reporter", OrgType::Agent).await;
    let report = |key: u64| {
        let key = u128::from(key);
        fetch_on("example.com", key).role(Agent).by_org(reporter.id).session(key % 7 + 1).url("https://example.com/")
    };
    // Names that are `other` or empty are separate from the sum.
    let named =
        ["other", "other", "", ""].into_iter().zip(0..).map(|(agent, key)| report(key).agent(agent).named("content_cited"));
    let invented = (4..count).map(|key| report(key).agent(&format!("agent-{key}")).named(&format!("com.example.t{key}")));
    for chunk in named.chain(invented).collect::<Vec<_>>().chunks(50_000) {
        app.insert(chunk).await;
    }
    for read in READS.map(|read| format!("/content-owners/{read}")).into_iter().chain(OWN.map(str::to_owned)) {
        let key = if read.starts_with("/agent/") { &reporter.key } else { &owner.key };
        let answer = app.read(key, &read, &[]).await;
        assert_eq!(answer.status, 200, "{read}");
        assert!(answer.raw.len() < MOST, "{read}: {} bytes", answer.raw.len());
    }
    for (path, key, agents) in [("/content-owners/summary", &owner.key, 1_000), ("/agent/summary", &reporter.key, 1_000)] {
        let summary = app.page(key, path, &[]).await;
        let (types, named) = (&summary["events_by_type"], &summary["agents"]);
        assert_eq!((&summary["total_events"], sum(types, "count"), sum(named, "event_count")), (&json!(count), count, count));
        let listed = |list: &Value| (list.as_array().unwrap().len(), list.as_array().unwrap().last().unwrap().clone());
        assert_eq!(types[0], json!({"event_type": "content_cited", "count": 4}), "{path}");
        assert_eq!(listed(types), (101, json!({"event_type": "", "count": count - 103, "other": true})), "{path}");
        let (length, others) = listed(named);
        assert_eq!((length, &others["other"], &others["session_count"]), (agents + 1, &json!(true), &json!(7)), "{path}");
        let other: Vec<&Value> = named.as_array().unwrap().iter().filter(|agent| agent["agent_id"] == "other").collect();
        assert_eq!((other.len(), &other[0]["event_count"], &other[0]["other"]), (1, &json!(2), &Value::Null), "{path}");
    }
    let pages = app.page(&owner.key, "/content-owners/urls", &[]).await;
    let types = &pages["items"][0]["event_types"];
    assert_eq!((types.as_array().unwrap().len(), sum(types, "count"), &types[20]["other"]), (21, count, &json!(true)));
    let series = app.page(&owner.key, "/content-owners/series", &[("split", "platform")]).await;
    assert_eq!(series["items"][0]["platform_id"], reporter.id.to_string());
}

#[tokio::test]
async fn invented_agents_are_limited_by_reporter_and_length() {
    let count = size("INVENTED_AGENTS", 300);
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let (agent, stranger) = (app.seed().org("Agent", OrgType::Agent).await, app.seed().org("Stranger", OrgType::Platform).await);
    let claim = |key: usize, by, name: &str| {
        fetch_on("example.com", key as u128).role(Agent).by_org(by).session(1).url("https://example.com/").agent(name)
    };
    let long = "x".repeat(1_900);
    let invented = |key| {
        [claim(2 * key, stranger.id, ""), claim(2 * key + 1, stranger.id, "")]
            .map(|claim| claim.agent(&format!("ClaudeBot/{key} {long}")))
    };
    for keys in (0..count).collect::<Vec<_>>().chunks(10_000) {
        app.insert(&keys.iter().flat_map(|key| invented(*key)).collect::<Vec<_>>()).await;
    }
    app.insert(&[claim(2 * count, agent.id, "ChatGPT-User")]).await;
    let started = std::time::Instant::now();
    let reconciled = app.page(&owner.key, "/content-owners/reconciliation", &[]).await;
    println!("reconciliation: {:?}", started.elapsed());
    let items = reconciled["items"].as_array().unwrap();
    let fetches = |operator: &str| {
        items.iter().filter(|item| item["operator"] == operator).map(|item| item["fetches"].as_u64().unwrap()).sum::<u64>()
    };
    let others = 2 * (count as u64 - 100);
    assert_eq!(["OpenAI", "Anthropic", ""].map(fetches), [1, 200, others], "{reconciled}");
    let started = std::time::Instant::now();
    let summary = app.page(&owner.key, "/content-owners/summary", &[]).await;
    println!("summary: {:?}", started.elapsed());
    let lengths = summary["agents"].as_array().unwrap().iter().map(|agent| agent["agent_id"].as_str().unwrap_or("").len());
    assert_eq!(lengths.max(), Some(200));
}
