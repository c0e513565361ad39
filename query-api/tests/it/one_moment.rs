//! All of a statement sees one moment of the store, however long the store takes to plan it.
//!
//! Must not go by chance: before each part of a statement that reads events the store waits, while reports come and merge.

use crate::test_app::{TestApp, seen};
use query_api::{Settings, State, router};
use schemas::event::SourceRole::Agent;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{ClickHouseProxy, ClickHouseRequest, TestServer};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Write as _;

const EVENTS: &str = "WHERE site IN (SELECT site FROM visible_hosts)";
const READS: usize = 5;

/// Has the store wait before it goes on planning, wherever events are read. Each time for another while: what was asked before it
/// would answer from memory.
fn planned_slowly(request: &mut ClickHouseRequest) {
    let mut parts = request.statement.split(EVENTS);
    let mut slow = parts.next().unwrap_or_default().to_owned();
    for (number, part) in parts.enumerate() {
        write!(slow, "WHERE (SELECT sleep(0.2{number})) = 0 AND {}{part}", EVENTS.trim_start_matches("WHERE ")).unwrap();
    }
    request.statement = slow;
}

/// Reports that come and are merged, again and again: a page's total and its events are of one moment or differ.
async fn arrive(app: &TestApp) -> Infallible {
    for key in 0.. {
        app.insert(&[seen("example.com", key).role(Agent).session(key + 1)]).await;
        app.merge().await;
    }
    unreachable!("keys do not run out")
}

async fn ask(app: &TestApp, key: &str) {
    let mut totals = BTreeSet::new();
    for _ in 0..READS {
        let events = app.page(key, "/content-owners/events", &[("limit", "1000")]).await;
        assert_eq!(events["total"], events["items"].as_array().unwrap().len(), "a page and its total are of one moment");
        let summary = app.summary(key, &[]).await;
        assert_eq!(summary.total_sessions, summary.total_events, "each retrieval is a session's");
        assert_eq!(summary.agents.iter().map(|agent| agent.event_count).sum::<u64>(), summary.total_events, "and an agent's");
        totals.insert(summary.total_events);
    }
    assert!(totals.len() > 1, "nothing came between the reads: {totals:?}");
}

#[tokio::test]
async fn r13_a_read_is_of_one_moment_however_long_the_store_plans_it() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[seen("example.com", u128::MAX).role(Agent).session(u128::MAX)]).await;
    let proxy = ClickHouseProxy::before(&app.stores.clickhouse.clickhouse_url, planned_slowly).await;
    let clickhouse = ClickHouseSettings { clickhouse_url: proxy.url().to_owned(), ..app.stores.clickhouse.clone() };
    let state = State::connect(&Settings::on(clickhouse, app.stores.postgres.clone())).await.unwrap();
    let app = app.served_by(TestServer::start(router(state)).await);
    tokio::select! {
        never = arrive(&app) => match never {},
        () = ask(&app, &owner.key) => {}
    }
    let slowed =
        proxy.take_requests().iter().filter(|request| request.statement.contains(EVENTS.trim_start_matches("WHERE "))).count();
    assert_eq!(slowed, 2 * READS, "every read of events is slowed");
}
