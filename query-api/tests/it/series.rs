//! `GET /content-owners/series` and `GET /agent/series`: items, errors and formats.

use crate::click_fixture::ClickFixture;
use crate::test_app::{Observation, Query, TestApp, fetch_on, platform};
use schemas::event::SourceRole::{Agent, Edge};
use schemas::identity::OrgType;
use serde_json::{Value, json};
use service_kit::testing::client;

const DAY_MS: i64 = 86_400_000;
const OWNERS: &str = "/content-owners/series";
const SPLITS: [&str; 10] = ["none", "type", "role", "agent", "platform", "operator", "bot", "purpose", "verified", "status"];

/// Creates a fetch that two agents and an edge report around midnight, with a repeated report, and a fetch that only the edge reports.
async fn world_of_two_days() -> (TestApp, String) {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    app.stop_merges().await;
    let first = fetch_on("example.com", 1).role(Agent).by(10).session(7).agent("alpha").after(DAY_MS - 1);
    app.insert(&[
        first.clone(),
        fetch_on("example.com", 1).role(Agent).by(11).session(8).agent("beta").after(DAY_MS),
        fetch_on("example.com", 1).role(Edge).by(20).after(DAY_MS + 5),
    ])
    .await;
    app.insert(&[first.after(3 * DAY_MS), fetch_on("example.com", 2).role(Edge).by(20).after(2 * DAY_MS)]).await;
    (app, owner.key)
}

#[tokio::test]
async fn fetches_count_in_their_first_reports_bucket() {
    let (app, key) = world_of_two_days().await;
    let series = app.page(&key, OWNERS, &[]).await;
    let day = |day: u32, events: u64, sessions: u64| json!({"start": format!("2026-01-0{day}T00:00:00.000Z"), "total_events": events, "total_sessions": sessions});
    assert_eq!(series["items"], json!([day(1, 1, 2), day(2, 0, 0), day(3, 1, 0)]));
    assert_eq!(
        [&series["by"], &series["split"], &series["filled"], &series["total"], &series["period_start"], &series["domains"]],
        [&json!("day"), &json!("none"), &json!(true), &json!(3), &Value::Null, &json!(["example.com"])]
    );
    let window = [("since", "2025-12-31"), ("until", "2026-01-01T23:59:59.999Z"), ("by", "day")];
    let series = app.page(&key, OWNERS, &window).await;
    let before = json!({"start": "2025-12-31T00:00:00.000Z", "total_events": 0, "total_sessions": 0});
    assert_eq!(series["items"], json!([before, day(1, 0, 0)]), "the first and last buckets contain only events in the period");
    assert_eq!((&series["period_start"], &series["period_end"]), (&json!("2025-12-31"), &json!("2026-01-01T23:59:59.999Z")));
}

#[tokio::test]
async fn fetches_count_for_each_observer() {
    let (app, key) = world_of_two_days().await;
    let told = async |split: &str| {
        let series = app.page(&key, OWNERS, &[("split", split)]).await;
        let items = series["items"].as_array().unwrap().clone();
        let told = items.into_iter().map(|mut item| {
            let start = item.as_object_mut().unwrap().remove("start").unwrap();
            (start.as_str().unwrap()[8..10].parse::<u32>().unwrap(), item)
        });
        told.collect::<Vec<_>>()
    };
    let role =
        |role: &str, events: u64, sessions: u64| json!({"source_role": role, "total_events": events, "total_sessions": sessions});
    let (agent, edge) = (|events, sessions| role("agent", events, sessions), |events| role("edge", events, 0));
    assert_eq!(
        told("role").await,
        [(1, agent(1, 2)), (1, edge(1)), (2, agent(0, 0)), (2, edge(0)), (3, agent(0, 0)), (3, edge(1))]
    );
    let agent = |org: u128, name: &str, count: u64| json!({"platform_id": platform(org), "agent_id": name, "total_events": count, "total_sessions": count});
    let days = [(1, 1), (2, 0), (3, 0)];
    assert_eq!(
        told("agent").await,
        days.map(|(day, count)| [(day, agent(10, "alpha", count)), (day, agent(11, "beta", count))]).concat()
    );
    let platforms = |org: u128, count: u64| json!({"platform_id": platform(org), "total_events": count, "total_sessions": count});
    assert_eq!(
        told("platform").await,
        days.map(|(day, count)| [(day, platforms(10, count)), (day, platforms(11, count))]).concat()
    );
}

#[tokio::test]
async fn series_errors_name_the_fix() {
    let app = Query::start().await;
    let (owner, agent) = (app.seed().owner_of("example.com").await, app.seed().org("Agent", OrgType::Agent).await);
    let long = [("since", "2000-01-01"), ("until", "2026-01-01"), ("by", "hour")];
    for (path, key) in [(OWNERS, &owner.key), ("/agent/series", &agent.key)] {
        let refused: [(&[(&str, &str)], &str); 4] = [
            (&[("by", "week")], "by must be one of: hour, day."),
            (&[("split", "url")], "split must be one of: none, type, role, agent, "),
            (&long, "Use by=day, or a shorter period with since and until."),
            (&[("since", "2026-01-02"), ("until", "2026-01-01")], "since must not be after until."),
        ];
        for (query, detail) in refused {
            let (status, problem) = app.read(key, path, query).await.problem();
            assert_eq!((status, &problem["code"]), (400, &"invalid_parameter".into()), "{path} {query:?}");
            assert!(problem["detail"].as_str().unwrap().contains(detail), "{path} {query:?}: {problem}");
        }
    }
    // The number of buckets is unknown until events are counted.
    app.insert(&[fetch_on("example.com", 1), fetch_on("example.com", 2).after(-9_000 * DAY_MS)]).await;
    let (status, problem) = app.read(&owner.key, OWNERS, &[("by", "hour")]).await.problem();
    assert_eq!((status, &problem["code"]), (400, &"invalid_parameter".into()));
    assert_eq!(app.page(&owner.key, OWNERS, &[]).await["total"], 9_001, "days never exceed the limit");
}

#[tokio::test]
async fn ndjson_and_csv_equal_json_items() {
    let (app, owner) = world_of_two_days().await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let formula = fetch_on("example.com", 9).role(Agent).by_org(agent.id).session(3).agent("=cmd()").after(DAY_MS);
    app.insert(&[formula]).await;
    let own = ["none", "type", "role", "agent"].map(|split| (format!("/agent/series?split={split}"), agent.key.clone()));
    let owners = SPLITS.map(|split| (format!("{OWNERS}?by=hour&split={split}"), owner.clone()));
    for (path, key) in owners.into_iter().chain(own) {
        let page = app.page(&key, &path, &[]).await;
        let items = page["items"].as_array().unwrap();
        assert!(!items.is_empty(), "{path}");
        for accept in ["application/x-ndjson", "text/csv"] {
            let request = client().get(format!("{}{path}", app.server.url)).header("x-api-key", &key).header("accept", accept);
            let answer = request.send().await.unwrap();
            let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
            assert_eq!(
                (header("x-total-count"), header("x-series-filled")),
                (items.len().to_string(), "true".to_owned()),
                "{path}"
            );
            let text = answer.text().await.unwrap();
            if accept == "application/x-ndjson" {
                let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                assert_eq!(lines, *items, "{path}");
                continue;
            }
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let columns = reader.headers().unwrap().clone();
            let records: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
            assert_eq!(records.len(), items.len(), "{path}");
            for (record, item) in records.iter().zip(items) {
                // Without a drain, the covered hours are unknown.
                let is_named = |column: &str| !["other", "covered_hours"].contains(&column);
                let named = columns.iter().filter(|column| is_named(column)).count();
                assert_eq!(named, item.as_object().unwrap().len(), "{path}: every member has a column");
                for (column, cell) in columns.iter().zip(record).filter(|(column, _)| is_named(column)) {
                    let expected = item[column].as_str().map_or_else(|| item[column].to_string(), str::to_owned);
                    let expected = expected.replace("null", "");
                    let expected = if expected.starts_with('=') { format!("'{expected}") } else { expected };
                    assert_eq!(cell, expected, "{path} {column}");
                }
            }
        }
    }
}

#[tokio::test]
async fn large_series_omit_zeros() {
    const AGENTS: u128 = 3_000;
    const LISTED: usize = 100;
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let row = |key: u128| {
        let at = i64::try_from(key % 49).unwrap() * DAY_MS;
        fetch_on("example.com", key).role(Agent).by(5).session(key % 7 + 1).agent(&format!("agent-{key:04}")).after(at)
    };
    app.insert(&(0..AGENTS).map(row).collect::<Vec<_>>()).await;
    let hourly = [("split", "agent"), ("by", "hour")];
    let series = app.page(&owner.key, OWNERS, &hourly).await;
    assert_eq!((&series["filled"], &series["total"]), (&json!(false), &json!(LISTED + 49)));
    let items = series["items"].as_array().unwrap();
    let order = |item: &Value| (item["start"].to_string(), item["other"] == true, item["agent_id"].to_string());
    assert!(items.iter().map(order).is_sorted(), "sorted by bucket and agent, with the sum of others last");
    let (others, named): (Vec<&Value>, Vec<&Value>) = items.iter().partition(|item| item["other"] == true);
    assert_eq!((named.len(), others.len()), (LISTED, 49));
    assert!(named.iter().all(|item| item["total_events"] == 1 && item["total_sessions"] == 1 && item["agent_id"] != ""));
    let events = items.iter().map(|item| u128::from(item["total_events"].as_u64().unwrap())).sum::<u128>();
    assert_eq!(events, AGENTS);
    // Keys of one day have the same remainder modulo 7.
    assert!(others.iter().all(|item| item["total_sessions"] == 1 && item["platform_id"] == "" && item["agent_id"] == ""));
    let csv = client().get(format!("{}{OWNERS}?split=agent&by=hour", app.server.url)).header("x-api-key", &owner.key);
    let csv = csv.header("accept", "text/csv").send().await.unwrap();
    assert_eq!(
        (&csv.headers()["x-series-filled"], &csv.headers()["x-total-count"]),
        (&"false".parse().unwrap(), &"149".parse().unwrap())
    );
    assert_eq!(app.page(&owner.key, OWNERS, &[("split", "agent")]).await["filled"], true);
}

#[tokio::test]
async fn figures_do_not_reveal_issuers_or_reporters() {
    let clicks = ClickFixture::start().await;
    let session = clicks.session(Some(0)).await;
    let clicked = |key: u128, link: i8| {
        let row = fetch_on("example.com", key)
            .by_org(clicks.network.id)
            .bound(clicks.agent.id, link)
            .agent("secret-agent")
            .named("content_engaged");
        Observation { session_id: session, ..row }
    };
    clicks.app.insert(&[clicked(1, 1), clicked(2, 2), clicked(3, 3)]).await;
    let own = clicks.app.page(&clicks.network.key, "/agent/summary", &[]).await;
    assert_eq!((&own["total_events"], &own["total_sessions"], &own["clicks"]["total_events"]), (&json!(3), &json!(0), &json!(0)));
    assert_eq!(own["agents"], json!([{"agent_id": "", "event_count": 3, "session_count": 0}]));
    let issuer = clicks.app.page(&clicks.agent.key, "/agent/summary", &[]).await;
    let told = json!({"total_events": 3, "total_sessions": 1, "events_by_type": [{"event_type": "content_engaged", "count": 3}]});
    assert_eq!((&issuer["total_events"], &issuer["clicks"]), (&json!(0), &told));
    for (key, secrets) in [
        (&clicks.network.key, vec![clicks.agent.id.to_string(), "secret-agent".to_owned()]),
        (&clicks.agent.key, vec![clicks.network.id.to_string(), "secret-agent".to_owned()]),
    ] {
        for path in ["summary", "series", "series?split=type", "series?split=role", "series?split=agent", "series?split=outcome"]
        {
            let text = clicks.app.read(key, &format!("/agent/{path}"), &[]).await.raw;
            assert!(secrets.iter().all(|secret| !text.contains(secret)), "{path}: {text}");
        }
    }
    let by_type = clicks.app.page(&clicks.agent.key, "/agent/series?split=type", &[]).await;
    let item = json!({"start": "2026-01-01T00:00:00.000Z", "event_type": "content_engaged", "total_events": 0, "total_sessions": 0, "clicks": 3});
    assert_eq!(by_type["items"], json!([item]));
}
