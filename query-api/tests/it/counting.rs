//! docs/api/event-keys.md#figures, one by one.

use crate::test_app::{Observation, TestApp, platform, seen};
use schemas::crawler::Crawler;
use schemas::event::SourceRole::{Agent, Edge, Index, Origin};
use schemas::ids::DrainId;
use serde_json::json;
use uuid::Uuid;

const DAY_MS: i64 = 86_400_000;

#[tokio::test]
async fn r15_the_counting_contract_holds_figure_by_figure() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[
        // One retrieval seen by four roles, and once more by another agent.
        seen("example.com", 1).role(Agent).by(10).session(7).agent("alpha"),
        seen("example.com", 1).role(Agent).by(11).session(7).agent("beta"),
        seen("example.com", 1).role(Edge).by(20),
        seen("example.com", 1).role(Origin).by(21),
        seen("example.com", 1).role(Index).by(22).session(9),
        // One seen by the edge only.
        seen("www.example.com", 2).role(Edge).by(20),
        // Events of the first agent, in its session 7 and a new one; the last says no role, which only an agent has.
        seen("www.example.com", 3).role(Agent).by(10).session(7).agent("alpha").named("content_cited"),
        seen("www.example.com", 4).role(Agent).by(10).session(8).agent("alpha").named("content_cited"),
        seen("www.example.com", 5).by(10).session(8).agent("alpha2").named("content_engaged"),
        // An agent that names neither itself nor a session, and a report without role and session.
        seen("example.com", 6).role(Agent).by(12),
        seen("example.com", 7).by(13).named("com.example.shared"),
    ])
    .await;
    let answer = app.ask(&owner.key, &[]).await;
    assert_eq!(
        answer.json(),
        json!({
            "organization_id": owner.id,
            "domains": ["example.com"],
            "total_events": 7,
            "total_sessions": 4,
            "events_by_type": [
                {"event_type": "content_retrieved", "count": 3},
                {"event_type": "content_cited", "count": 2},
                {"event_type": "com.example.shared", "count": 1},
                {"event_type": "content_engaged", "count": 1},
            ],
            "events_by_source": [
                {"source_role": "agent", "count": 5, "sessions": 3},
                {"source_role": "edge", "count": 2, "sessions": 0},
                {"source_role": "origin", "count": 1, "sessions": 0},
                {"source_role": "index", "count": 1, "sessions": 1},
            ],
            "agents": [
                {"platform_id": platform(10), "agent_id": "alpha", "event_count": 3, "session_count": 2},
                {"platform_id": platform(10), "agent_id": "alpha2", "event_count": 1, "session_count": 1},
                {"platform_id": platform(11), "agent_id": "beta", "event_count": 1, "session_count": 1},
                {"platform_id": platform(12), "agent_id": "", "event_count": 1, "session_count": 0},
                {"platform_id": platform(22), "agent_id": "", "event_count": 1, "session_count": 1},
            ],
            "period_start": null,
            "period_end": null,
        })
    );
}

#[tokio::test]
async fn an_owner_without_telemetry_or_domains_has_zeros() {
    let app = TestApp::new().await;
    let owner = app.seed().org("Nobody", schemas::identity::OrgType::ContentOwner).await;
    // An event on a host that nobody can own has no site.
    app.insert(&[seen("example.com", 1), Observation { site: String::new(), ..seen("example.com", 2) }]).await;
    let summary = app.summary(&owner.key, &[]).await;
    assert_eq!((summary.total_events, summary.total_sessions, summary.domains.len()), (0, 0, 0));
    assert!(summary.events_by_type.is_empty() && summary.events_by_source.is_empty() && summary.agents.is_empty());
}

#[tokio::test]
async fn repeats_count_once() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.stop_merges().await;
    let report = seen("example.com", 1).role(Agent).by(10).session(7).agent("alpha");
    // Each accepted earlier than the one before, so that it takes its place.
    for age in 0..5 {
        app.insert(&[report.clone().after(-age).accepted(100 - age)]).await;
        let summary = app.summary(&owner.key, &[]).await;
        assert_eq!((summary.total_events, summary.total_sessions), (1, 1));
        assert_eq!((summary.events_by_source[0].count, summary.agents[0].event_count), (1, 1));
    }
    assert_eq!(
        app.page(&owner.key, "/content-owners/events", &[]).await["items"][0]["event_timestamp"],
        "2025-12-31T23:59:59.996Z"
    );
}

#[tokio::test]
async fn the_first_of_two_repeats_stays() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.stop_merges().await;
    let first = seen("example.com", 1).role(Agent).session(7).agent("first").named("content_cited").accepted(0);
    let second = first.clone().session(8).agent("second").named("content_presented").accepted(1);
    for order in [[&first, &second], [&second, &first]] {
        app.empty().await;
        for report in order {
            app.insert(std::slice::from_ref(report)).await;
        }
        let summary = app.summary(&owner.key, &[]).await;
        assert_eq!((summary.agents.len(), summary.agents[0].agent_id.as_str()), (1, "first"));
        assert_eq!(summary.events_by_type[0].event_type, "content_cited");
    }
}

#[tokio::test]
async fn an_id_that_is_used_again_on_another_host_is_another_event() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let first = seen("www.example.com", 1).role(Agent).accepted(0);
    let copy = seen("example.com", 1).role(Agent).accepted(1);
    app.insert(&[first, copy, seen("shop.example.com", 1).role(Edge).accepted(2)]).await;
    assert_eq!(app.total(&owner.key, &[]).await, 2);
    assert_eq!(app.total(&owner.key, &[("domain", "shop.example.com")]).await, 1);
    let page = app.page(&owner.key, "/content-owners/corroboration", &[("by", "day")]).await;
    assert_eq!((&page["items"][0]["seen_by_both"], &page["items"][0]["retrievals"]), (&json!(0), &json!(2)), "{page}");
}

/// docs/api/counting.md#2-reports-of-one-fetch-are-one-event
#[tokio::test]
async fn a_correlation_id_joins_the_first_report_of_each_observer() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let drain = |n: u128| Some(DrainId(Uuid::from_u128(n)));
    let edge = seen("example.com", 1).role(Edge).by(20);
    app.insert(&[
        seen("example.com", 1).role(Agent).by(10).session(1).agent("alpha").accepted(0),
        Observation { drain: drain(1), ..edge.clone().accepted(2) },
        seen("example.com", 1).role(Origin).by(20).accepted(3),
        // A second request through that drain, one through another drain, and the agent's second fetch.
        Observation { drain: drain(1), ..edge.clone().again(1).accepted(4) },
        Observation { drain: drain(2), ..edge.again(2).accepted(5) },
        seen("example.com", 1).role(Agent).by(10).session(1).agent("alpha").again(1).accepted(6),
    ])
    .await;
    let summary = app.summary(&owner.key, &[]).await;
    assert_eq!((summary.total_events, summary.total_sessions), (3, 1));
    let by_source: Vec<_> = summary.events_by_source.iter().map(|of| (of.source_role.as_str(), of.count)).collect();
    assert_eq!(by_source, [("agent", 2), ("edge", 2), ("origin", 1)]);
    let page = app.page(&owner.key, "/content-owners/corroboration", &[("by", "day")]).await;
    let part = &page["items"][0];
    assert_eq!(
        [&part["seen_by_both"], &part["claimed_by_agent_only"], &part["seen_by_server_only"]],
        [&json!(1), &json!(1), &json!(1)],
        "{page}"
    );
}

/// docs/api/counting.md#5-one-report-represents-the-event
#[tokio::test]
async fn the_status_is_that_of_the_first_report_with_one() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let described = |row: Observation, crawler: Crawler| Observation { crawler: Some(crawler), ..row };
    app.insert(&[
        described(seen("example.com", 1).role(Edge).by(20), Crawler { response_bytes: 10, ..Crawler::default() }),
        described(seen("example.com", 1).role(Origin).by(21), Crawler { response_status: 404, ..Crawler::default() }),
    ])
    .await;
    let total = async |outcome: &str| app.total(&owner.key, &[("outcome", outcome)]).await;
    assert_eq!((total("fetch").await, total("failed").await), (0, 1));
}

/// Visitors choose the id, so the owner sees how many of a drain's lines share one.
#[tokio::test]
async fn coverage_counts_joined_lines_and_reused_ids_by_drain() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let line = |n: u128, number: u64| {
        let line = seen("example.com", 1).role(Edge).of(owner.id);
        Observation { drain: Some(DrainId(Uuid::from_u128(n))), ..line.again(number).accepted(number.try_into().unwrap()) }
    };
    let others_line =
        Observation { drain: Some(DrainId(Uuid::from_u128(3))), ..seen("example.com", 1).role(Edge).by(20).again(9) };
    app.insert(&[
        seen("example.com", 1).role(Agent).by(10).accepted(0),
        line(1, 1),
        line(1, 2),
        line(1, 3),
        line(2, 4),
        others_line.accepted(9),
    ])
    .await;
    let read = app.page(&owner.key, "/content-owners/coverage", &[]).await;
    let drain = |n: u128, lines: u64, joined: u64, reused: u64| json!({"drain_id": Uuid::from_u128(n), "lines_with_id": lines, "joined": joined, "reused_ids": reused});
    assert_eq!(read["drains"], json!([drain(1, 3, 1, 2), drain(2, 1, 1, 0)]), "{read}");
}

/// docs/api/counting.md#3-the-time-of-an-event
#[tokio::test]
async fn the_time_of_an_event_is_that_of_its_first_timely_report() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let at = async || {
        let page = app.page(&owner.key, "/content-owners/events", &[]).await;
        assert_eq!(page["total"], 1, "{page}");
        page["items"][0]["event_timestamp"].as_str().unwrap().to_owned()
    };
    let months = |months: i64| months * 31 * DAY_MS;
    let claim = seen("example.com", 1).role(Agent).by(10).after(-months(4)).accepted(5_000);
    app.insert(&[claim]).await;
    assert_eq!(at().await, "2025-08-30T00:00:00.000Z", "no report is timely");
    app.insert(&[seen("example.com", 1).role(Edge).by(20).after(1_000).accepted(120_000)]).await;
    assert_eq!(at().await, "2026-01-01T00:00:01.000Z", "the edge's is");
    app.insert(&[seen("example.com", 1).role(Origin).by(20).after(2_000).accepted(2 * DAY_MS)]).await;
    assert_eq!(at().await, "2026-01-01T00:00:01.000Z", "a later one moves nothing");
    // Accepted before, stored later, and in another month.
    app.insert(&[seen("example.com", 1).role(Index).by(22).after(-3_000).accepted(-2_000)]).await;
    assert_eq!(at().await, "2025-12-31T23:59:57.000Z");
    let of_august = [("until", "2025-08-31")];
    assert_eq!(app.total(&owner.key, &of_august).await, 0, "it is in one period");
}

#[tokio::test]
async fn the_agent_represents_a_retrieval_then_edge_origin_index_and_no_role() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    // Each later one precedes all before it, whatever its organization.
    let ranked = [
        seen("example.com", 1).by(3).accepted(9).url("https://example.com/none-later"),
        seen("example.com", 1).by(1 << 64).accepted(8).url("https://example.com/none"),
        seen("example.com", 1).role(Index).by(9).accepted(11).url("https://example.com/index"),
        seen("example.com", 1).role(Origin).by(9).accepted(12).url("https://example.com/origin"),
        seen("example.com", 1).role(Edge).by(9).accepted(13).url("https://example.com/edge"),
        seen("example.com", 1).role(Agent).by(9).accepted(14).url("https://example.com/agent"),
        seen("example.com", 1).role(Agent).by(1 << 64).accepted(7).url("https://example.com/agent-first"),
    ];
    for row in &ranked {
        app.insert(std::slice::from_ref(row)).await;
        let page = app.page(&owner.key, "/content-owners/events", &[]).await;
        assert_eq!((&page["total"], &page["items"][0]["content_url"]), (&json!(1), &json!(row.content_url)));
    }
}

#[tokio::test]
async fn figures_agree_with_each_other_while_rows_arrive() {
    const BLOCKS: u128 = 60;
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let arriving = async {
        for block in 0..BLOCKS {
            // Each block repeats the one before it and corroborates it by another role.
            let keys = block * 50..(block + 1) * 50;
            let fresh = keys.clone().map(|key| seen("example.com", key).role(Edge));
            let again = keys.map(|key| key.saturating_sub(50)).flat_map(|key| {
                [seen("example.com", key).role(Edge).accepted(1), seen("example.com", key).role(Agent).session(key + 1)]
            });
            app.insert(&fresh.chain(again).collect::<Vec<_>>()).await;
        }
    };
    let polling = async {
        let mut totals = vec![0];
        while *totals.last().unwrap() < u64::try_from(BLOCKS * 50).unwrap() {
            let summary = app.summary(&owner.key, &[]).await;
            let by_role = |role: &str| summary.events_by_source.iter().find(|of| of.source_role == role).map_or(0, |of| of.count);
            assert_eq!(by_role("edge"), summary.total_events);
            assert_eq!(summary.agents.iter().map(|agent| agent.event_count).sum::<u64>(), by_role("agent"));
            assert_eq!(summary.total_sessions, by_role("agent"));
            totals.push(summary.total_events);
        }
        assert!(totals.is_sorted(), "a total never falls: {totals:?}");
        assert!(totals.iter().all(|total| total % 50 == 0), "a block is visible whole or not at all: {totals:?}");
    };
    tokio::join!(arriving, polling);
}
