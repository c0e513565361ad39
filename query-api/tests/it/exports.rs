//! `GET /content-owners/documents`: grouping, paging, and what the reader may not see. The lab's end-to-end tests report exports again.

use crate::test_app::{Observation, Query, TestApp, fetch_on};
use schemas::event::SourceRole::{Agent, Edge};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::SeededOrg;
use std::collections::BTreeSet;
use uuid::Uuid;

const YEAR_MS: i64 = 365 * 86_400_000;

/// Returns a page's documents and the next page's cursor.
async fn page(app: &TestApp, key: &str, query: &[(&str, &str)]) -> (Vec<Value>, Option<String>) {
    let answer = app.read(key, "/content-owners/documents", query).await.expect(200);
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    let next = answer.headers.get("x-next-after").map(|next| next.to_str().unwrap().to_owned());
    (answer.raw.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), next)
}

async fn documents(app: &TestApp, owner: &SeededOrg) -> Vec<Value> {
    page(app, &owner.key, &[]).await.0
}

fn ids(documents: &[Value]) -> Vec<&str> {
    let events = documents.iter().flat_map(|document| document["events"].as_array().unwrap());
    events.map(|event| event["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn documents_have_at_most_500_events() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let mut rows: Vec<Observation> = (1..=501).map(|key| fetch_on("example.com", key).role(Edge)).collect();
    let large = format!(r#"{{"com.example.x":"{}"}}"#, "x".repeat(700_000));
    rows.extend((601..=603).map(|key| fetch_on("example.com", key).role(Edge).by(2).data(&large)));
    app.insert(&rows).await;
    let mut sizes: Vec<usize> =
        documents(&app, &owner).await.iter().map(|document| document["events"].as_array().unwrap().len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 1, 2, 500]);
}

#[tokio::test]
async fn pages_return_each_report_once() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    // Ties, and gaps that are longer than the period that is searched first.
    let times = [0, 0, 1, 2 * YEAR_MS / 365, YEAR_MS / 12, YEAR_MS, YEAR_MS, 20 * YEAR_MS];
    let rows: Vec<Observation> = times
        .iter()
        .zip(1..)
        .flat_map(|(ago, key)| {
            let fetch = fetch_on("example.com", key).after(-ago).accepted(0);
            [fetch.clone().role(Agent).id(&format!("{key} agent")), fetch.role(Edge).by(2).id(&format!("{key} edge"))]
        })
        .collect();
    app.insert(&rows).await;
    for limit in ["1", "2", "3", "8", "1000"] {
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let query = [("limit", limit)].into_iter().chain(after.as_deref().map(|after| ("after", after)));
            let (documents, next) = page(&app, &owner.key, &query.collect::<Vec<_>>()).await;
            found.extend(ids(&documents).into_iter().map(str::to_owned));
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(found.len(), rows.len(), "limit {limit}");
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), rows.len(), "limit {limit}");
    }
    let within = [("since", "2025-12-30"), ("until", "2025-12-31"), ("source_role", "edge")];
    assert_eq!(ids(&page(&app, &owner.key, &within).await.0).len(), 4, "the reports of two events");
}

#[tokio::test]
async fn reports_of_an_event_keep_their_order() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let by = |org: u128, key: u128, accepted: i64| {
        fetch_on("example.com", key).role(Edge).by(org).accepted(accepted).id(&format!("{key} by {org}"))
    };
    app.insert(&[by(1, 1, 20), by(2, 1, 10), by(1, 2, 10), by(2, 2, 20)]).await;
    let found = documents(&app, &owner).await;
    let found = ids(&found);
    let at = |id: &str| found.iter().position(|found| *found == id).unwrap();
    assert!(at("1 by 2") < at("1 by 1") && at("2 by 1") < at("2 by 2"), "{found:?}");
}

#[tokio::test]
async fn repeated_correlation_ids_are_replaced() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let id = Uuid::from_u128(7).to_string();
    let row = |own: u64| Observation {
        content_telemetry_id: id.clone(),
        ..fetch_on("example.com", 1).role(Edge).again(own).accepted(i64::try_from(own).unwrap())
    };
    let joined =
        Observation { content_telemetry_id: id.clone(), ..fetch_on("example.com", 1).role(Agent).by(2).session(3).accepted(9) };
    app.insert(&[row(1), row(2), joined]).await;
    let found = documents(&app, &owner).await;
    let events = found.iter().flat_map(|document| document["events"].as_array().unwrap());
    let correlation: Vec<&str> = events.map(|event| event["content_telemetry_id"].as_str().unwrap()).collect();
    assert_eq!(correlation.iter().filter(|found| **found == id).count(), 2, "{correlation:?}");
    assert_eq!(correlation.iter().collect::<BTreeSet<_>>().len(), 2, "{correlation:?}");
}

#[tokio::test]
async fn only_full_sessions_show_unknown_members() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("agent", OrgType::Agent).await;
    for (session, level) in [(1, 2_i16), (2, 3)] {
        let started = sqlx::query("INSERT INTO sessions (organization_id, session_id, privacy_level) VALUES ($1, $2, $3)");
        started.bind(agent.id.0).bind(Uuid::from_u128(session)).bind(level).execute(&app.stores.pool).await.unwrap();
    }
    let row = |session: u128| {
        let row = fetch_on("example.com", session).named("content_grounded").role(Agent).by_org(agent.id).session(session);
        row.data(r#"{"scope":"turn","score":{"n":1.50,"query_text":"private"},"topics":["private"],"evidence":{"turn":"private","m":1}}"#)
    };
    app.insert(&[row(1), row(2), row(3)]).await;
    let mut data: Vec<String> =
        documents(&app, &owner).await.iter().map(|document| document["events"][0]["data"].to_string()).collect();
    data.sort_unstable();
    let usual = json!({"evidence": {"m": 1}, "scope": "turn"}).to_string();
    let full = json!({"evidence": {"m": 1}, "scope": "turn", "score": {"n": 1.50}}).to_string();
    assert_eq!(data, [full, usual.clone(), usual]);
}

#[tokio::test]
async fn names_of_others_are_hidden() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("agent", OrgType::Agent).await;
    let session = Uuid::from_u128(0xabc);
    let click = |key: u128| Observation {
        session_id: session,
        link_site: "test.other".to_owned(),
        ..fetch_on("example.com", key).named("content_engaged").role(Agent).bound(agent.id, 3).agent("secret agent")
    };
    let own = fetch_on("example.com", 9).role(Edge).by_org(owner.id).id("own");
    app.insert(&[click(1), click(2), own]).await;
    let found = documents(&app, &owner).await;
    let text = json!(found).to_string();
    for hidden in [session.to_string(), agent.id.to_string(), Uuid::from_u128(1).to_string(), "secret agent".to_owned()] {
        assert!(!text.contains(&hidden), "{hidden}: {text}");
    }
    for (filter, count) in [(("agent_id", "secret agent"), 0), (("agent_id", ""), 3)] {
        assert_eq!(ids(&page(&app, &owner.key, &[filter]).await.0).len(), count, "{filter:?}");
    }
    let sessions: Vec<&Value> = found.iter().map(|document| &document["session_id"]).filter(|id| !id.is_null()).collect();
    assert_eq!(sessions.len(), 1, "clicks of one session stay together, and need one: {text}");
    let owners = found.iter().filter(|document| document["extensions"]["observer"]["is_owner"] == true);
    assert_eq!(ids(&owners.cloned().collect::<Vec<_>>()), ["own"]);
    let partner = app.seed().org("partner", OrgType::Platform).await;
    app.seed().delegate(owner.id, partner.id).await;
    let delegated = page(&app, &partner.key, &[("delegated_from", &owner.id.to_string())]).await.0;
    assert_eq!(delegated, found);
}
