//! All of a statement sees one moment of the store, however long the store takes to plan it.
//!
//! Must not go by chance: before each part of a statement that reads events the store waits, while reports come and merge.

use crate::test_app::{TestApp, seen};
use schemas::event::SourceRole::Agent;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::{ClickHouseProxy, ClickHouseRequest};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt::Write as _;

const EVENTS: &str = "WHERE site IN (SELECT site FROM sites WHERE above";
const SITES: &str = "FROM sites WHERE ";
const READS: usize = 5;

/// Makes the server wait while it plans, wherever events or hosts are read: after their snapshots. Each time for another while: it
/// would answer what was asked before from memory.
fn planned_slowly(request: &mut ClickHouseRequest) {
    let mut parts = request.statement.split(EVENTS);
    let mut slow = parts.next().unwrap_or_default().to_owned();
    for (number, part) in parts.enumerate() {
        write!(slow, "WHERE (SELECT sleep(0.2{number})) = 0 AND {}{part}", EVENTS.trim_start_matches("WHERE ")).unwrap();
    }
    request.statement = slow.replace(SITES, &format!("{SITES}(SELECT sleep(0.19)) = 0 AND "));
}

/// Inserts requests and merges them, again and again: if a page's total and its events are not of one moment, they differ. Each
/// request names a host that has events and one that has none yet.
async fn arrive(app: &TestApp) -> Infallible {
    for key in (0..).step_by(2) {
        let known = seen("example.com", key).role(Agent).session(key + 1);
        let new = seen(&format!("h{key}.example.com"), key + 1).role(Agent).session(key + 2);
        app.insert(&[known, new]).await;
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
        for total in [events["total"].as_u64().unwrap(), summary.total_events] {
            // The first event came alone.
            assert_eq!(total % 2, 1, "c3: an event on a known host is visible without the one on a new host");
        }
        totals.insert(summary.total_events);
    }
    assert!(totals.len() > 1, "nothing came between the reads: {totals:?}");
}

#[tokio::test]
async fn c3_r13_reads_see_one_snapshot_however_long_they_are_planned() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.seed().owner_of("blog.example.com").await;
    app.insert(&[seen("example.com", u128::MAX).role(Agent).session(u128::MAX)]).await;
    let proxy = ClickHouseProxy::before(&app.stores.clickhouse.clickhouse_url, planned_slowly).await;
    let clickhouse = ClickHouseSettings { clickhouse_url: proxy.url().to_owned(), ..app.stores.clickhouse.clone() };
    let app = app.through(clickhouse).await;
    tokio::select! {
        never = arrive(&app) => match never {},
        () = ask(&app, &owner.key) => {}
    }
    let slowed =
        proxy.take_requests().iter().filter(|request| request.statement.contains(EVENTS.trim_start_matches("WHERE "))).count();
    assert_eq!(slowed, 2 * READS, "every read of events is slowed");
}
