//! All of a statement sees one moment of the store, however long the store takes to plan it.
//!
//! Must not go by chance: before each look at the index the store waits, while reports come and are compacted.

use crate::test_app::{TestApp, seen};
use query_api::{Settings, State, router};
use schemas::event::SourceRole::Agent;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{ClickHouseProxy, ClickHouseRequest, TestServer};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Write as _;

const BASE: &str = "tier = 'base' AND ";
const READS: usize = 5;

/// Has the store wait before it goes on planning, wherever the base is named. Each time for another while: what was asked before
/// it would answer from memory.
fn planned_slowly(request: &mut ClickHouseRequest) {
    let mut parts = request.statement.split(BASE);
    let mut slow = parts.next().unwrap_or_default().to_owned();
    for (number, part) in parts.enumerate() {
        write!(slow, "{BASE}(SELECT sleep(0.2{number})) = 0 AND {part}").unwrap();
    }
    request.statement = slow;
}

/// Reports that come and are compacted, again and again: a retrieval that one step finds in the delta is in the base soon.
async fn arrive(app: &TestApp) -> Infallible {
    for key in 0.. {
        app.insert(&[seen("example.com", key).role(Agent).session(key + 1)]).await;
        app.compact().await;
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
    let slowed = proxy.take_requests().iter().filter(|request| request.statement.contains(BASE)).count();
    assert_eq!(slowed, 2 * READS, "every read names the base, and is slowed by that");
}
