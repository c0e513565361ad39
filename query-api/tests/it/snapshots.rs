//! All parts of a statement read one snapshot, however long ClickHouse plans. To make that deterministic, ClickHouse sleeps before each
//! part that reads events, while reports arrive and merge.

use crate::test_app::{Query, TestApp, fetch_on};
use schemas::event::SourceRole::Agent;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{ClickHouseProxy, ClickHouseRequest};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Write as _;

const EVENTS: &str = "WHERE site IN (SELECT site FROM sites WHERE above";
const SITES: &str = "FROM sites WHERE ";
const READS: usize = 5;

/// Makes ClickHouse sleep during planning wherever it reads events or hosts, after it took their snapshots. Durations differ,
/// because it caches the result of equal subqueries.
fn planned_slowly(request: &mut ClickHouseRequest) {
    let mut parts = request.statement.split(EVENTS);
    let mut slow = parts.next().unwrap_or_default().to_owned();
    for (number, part) in parts.enumerate() {
        write!(slow, "WHERE (SELECT sleep(0.2{number})) = 0 AND {}{part}", EVENTS.trim_start_matches("WHERE ")).unwrap();
    }
    request.statement = slow.replace(SITES, &format!("{SITES}(SELECT sleep(0.19)) = 0 AND "));
}

/// Inserts requests and merges them in a loop, so a page and its total differ if they come from different snapshots. Each request has an
/// event on a known host and one on a new host.
async fn arrive(app: &TestApp) -> Infallible {
    for key in (0..).step_by(2) {
        let known = fetch_on("example.com", key).role(Agent).session(key + 1);
        let new = fetch_on(&format!("h{key}.example.com"), key + 1).role(Agent).session(key + 2);
        app.insert(&[known, new]).await;
        app.merge().await;
    }
    unreachable!("the range of keys has no end")
}

async fn ask(app: &TestApp, key: &str) {
    let mut totals = BTreeSet::new();
    for _ in 0..READS {
        let events = app.page(key, "/content-owners/events", &[("limit", "1000")]).await;
        assert_eq!(events["total"], events["items"].as_array().unwrap().len(), "a page and its total come from one snapshot");
        let summary = app.summary(key, &[]).await;
        assert_eq!(summary.total_sessions, summary.total_events, "each fetch has a session");
        assert_eq!(summary.agents.iter().map(|agent| agent.event_count).sum::<u64>(), summary.total_events, "has an agent");
        for total in [events["total"].as_u64().unwrap(), summary.total_events] {
            // The first request had a single event.
            assert_eq!(total % 2, 1, "C3: only a part of a request is visible");
        }
        totals.insert(summary.total_events);
    }
    assert!(totals.len() > 1, "no request arrived between the reads: {totals:?}");
}

#[tokio::test]
async fn c3_r13_reads_use_one_snapshot() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    app.seed().owner_of("blog.example.com").await;
    app.insert(&[fetch_on("example.com", u128::MAX).role(Agent).session(u128::MAX)]).await;
    let proxy = ClickHouseProxy::start_before(&app.stores.clickhouse.clickhouse_url, planned_slowly).await;
    let clickhouse = ClickHouseSettings { clickhouse_url: proxy.url().to_owned(), ..app.stores.clickhouse.clone() };
    let app = Query::through(app, clickhouse).await;
    tokio::select! {
        never = arrive(&app) => match never {},
        () = ask(&app, &owner.key) => {}
    }
    let slowed =
        proxy.take_requests().iter().filter(|request| request.statement.contains(EVENTS.trim_start_matches("WHERE "))).count();
    assert_eq!(slowed, 2 * READS, "every read of events is slowed down");
}
