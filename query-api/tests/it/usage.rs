//! `GET /operator/usage`: what organizations report and use, as operators see it.

use crate::test_app::{NEW_YEAR_MS, Query, fetch_on};
use chrono::TimeDelta;
use schemas::event::SourceRole::Agent;
use schemas::identity::OrgType;
use schemas::instant;
use serde_json::{Value, json};
use service_kit::testing::client;

/// Gives an organization 80 drains, of which one is not silent, and requests that a limit rejected.
const PLANT: [&str; 3] = [
    "INSERT INTO drains (organization_id, name, provider, created_at, deleted_at) SELECT $1, n::text, 'ndjson', \
     now() - CASE n WHEN 2 THEN interval '1 hour' ELSE interval '2 days' END, CASE n WHEN 81 THEN now() END FROM generate_series(1, 81) n",
    "INSERT INTO drain_hours SELECT id, $1, 'ndjson', id, date_trunc('hour', now()), 1, 1, 0, 0, '{}', 1, 0, now() \
     FROM drains WHERE organization_id = $1 AND name = '1'",
    "INSERT INTO refused_reports SELECT $1, date_trunc('hour', at, 'UTC'), '/events', status, status::text, '', '', 7, at, 'id' FROM (VALUES \
     (now(), 429::smallint), (now(), 422::smallint), (now() - interval '25 hours', 429::smallint)) AS refused (at, status)",
];

#[tokio::test]
async fn operators_see_what_each_organization_uses() {
    let app = Query::start().await;
    let (seed, pool) = (app.seed(), &app.stores.pool);
    let (owner, agent) = (seed.owner_of("example.com").await, seed.org("Agent", OrgType::Agent).await);
    seed.org("idle", OrgType::Platform).await;
    seed.session("ada@a.test", TimeDelta::days(1)).await;
    seed.join("ada@a.test", owner.id).await;
    let operator = seed.operator("op@svc.test").await;
    for statement in PLANT {
        sqlx::query(statement).bind(owner.id.0).execute(pool).await.unwrap();
    }
    // The second click is the owner's report, and appears among the issuer's too.
    let fetches = (1..=3).map(|key| fetch_on("example.com", key).by_org(owner.id).after(i64::try_from(key).unwrap()));
    let click = fetch_on("example.com", 4).named("content_engaged").by_org(owner.id).session(1).bound(agent.id, 2);
    let claim = fetch_on("example.com", 1).role(Agent).by_org(agent.id);
    app.insert(&fetches.chain([click, claim]).collect::<Vec<_>>()).await;

    let list = async |query: &str| {
        let response =
            client().get(format!("{}/operator/usage{query}", app.server.url)).bearer_auth(&operator).send().await.unwrap();
        let total = response.headers().get("x-total-count").map(|total| total.to_str().unwrap().to_owned());
        (response.status().as_u16(), total, response.json::<Value>().await.unwrap())
    };
    let (status, total, all) = list("").await;
    assert_eq!((status, total.as_deref()), (200, Some("3")), "{all}");
    let last = |after| instant::text(chrono::DateTime::from_timestamp_millis(NEW_YEAR_MS + after).unwrap());
    assert_eq!(
        all[0],
        json!({"organization_id": owner.id.to_string(), "organization_name": "example.com", "org_type": "content_owner", "events": 4,
               "last_event_at": last(3), "keys": 1, "drains": 80, "silent_drains": 78, "members": 1, "limited_requests": 7,
               "near_limits": ["drains"]})
    );
    assert_eq!((&all[1]["events"], &all[1]["last_event_at"]), (&json!(1), &json!(last(0))), "not the click of its token");
    assert_eq!((&all[2]["events"], &all[2]["last_event_at"], &all[2]["near_limits"]), (&json!(0), &Value::Null, &json!([])));

    let names = |list: &Value| list.as_array().unwrap().iter().map(|one| one["organization_name"].clone()).collect::<Vec<_>>();
    for (query, expected) in [
        ("?sort=organization_name", json!(["Agent", "example.com", "idle"])),
        ("?sort=-last_event_at&limit=1", json!(["example.com"])),
        ("?sort=silent_drains&limit=1&offset=2", json!(["example.com"])),
        ("?since=2026-01-01T00:00:00.001Z&limit=1", json!(["example.com"])),
    ] {
        assert_eq!(json!(names(&list(query).await.2)), expected, "{query}");
    }
    assert_eq!(list("?until=2025-12-31&limit=1").await.2[0]["events"], 0, "no report is that old");
    for wrong in ["?sort=keys,drains", "?limit=0", "?domain=example.com", "?since=x"] {
        assert_eq!(list(wrong).await.0, 400, "{wrong}");
    }
}
