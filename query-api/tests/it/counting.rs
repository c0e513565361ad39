//! docs/api/counting.md#figures, one by one.

use crate::test_app::{Observation, TestApp, platform, seen};
use schemas::event::SourceRole::{Agent, Edge, Index, Origin};
use serde_json::json;

#[tokio::test]
async fn the_counting_contract_holds_figure_by_figure() {
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
async fn repeats_count_once_before_they_merge() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.command("SYSTEM STOP MERGES observations").await;
    let report = seen("example.com", 1).role(Agent).by(10).session(7).agent("alpha");
    for age in 0..5 {
        app.insert(&[report.clone().version(100 - age)]).await;
    }
    let parts = app.clickhouse().query("SELECT count() FROM observations").fetch_one::<u64>().await.unwrap();
    assert_eq!(parts, 5, "nothing has merged");
    let summary = app.summary(&owner.key, &[]).await;
    assert_eq!((summary.total_events, summary.total_sessions), (1, 1));
    assert_eq!((summary.events_by_source[0].count, summary.agents[0].event_count), (1, 1));
}

#[tokio::test]
async fn the_first_of_two_repeats_stays() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.command("SYSTEM STOP MERGES observations").await;
    let first = seen("example.com", 1).role(Agent).session(7).agent("first").version(200);
    let second = seen("example.com", 1).role(Agent).session(8).agent("second").version(199).named("content_cited");
    for order in [[&first, &second], [&second, &first]] {
        app.empty().await;
        for report in order {
            app.insert(std::slice::from_ref(report)).await;
        }
        let summary = app.summary(&owner.key, &[]).await;
        assert_eq!(summary.agents.len(), 1);
        assert_eq!(summary.agents[0].agent_id, "first");
        assert_eq!(summary.events_by_type[0].event_type, "content_retrieved");
    }
}

#[tokio::test]
async fn an_id_reported_again_for_another_host_of_the_owner_is_one_event() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let first = seen("www.example.com", 1).version(200);
    let again = seen("shop.example.com", 1).version(199).named("content_cited");
    app.insert(&[first, again, seen("shop.example.com", 2)]).await;
    let summary = app.summary(&owner.key, &[]).await;
    assert_eq!(summary.total_events, 2);
    assert_eq!(summary.events_by_type.len(), 1, "the first report stays");
}

#[tokio::test]
async fn the_agent_represents_a_retrieval_then_edge_origin_index_and_no_role() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    // Each later one outranks all before it, whatever its version and organisation.
    let ranked = [
        seen("example.com", 1).by(3).version(9).named("t.none_younger_version"),
        seen("example.com", 1).by(2).version(10).named("t.none_larger_org"),
        seen("example.com", 1).by(1).version(10).named("t.none"),
        seen("example.com", 1).role(Index).by(9).version(1).named("t.index"),
        seen("example.com", 1).role(Origin).by(9).version(1).named("t.origin"),
        seen("example.com", 1).role(Edge).by(9).version(1).named("t.edge"),
        seen("example.com", 1).role(Agent).by(9).version(1).named("t.agent"),
        // The first half of an organisation's id weighs more than the second.
        seen("example.com", 1).role(Agent).by(1 << 64).version(5).named("t.agent_larger_org"),
        seen("example.com", 1).role(Agent).by(8).version(5).named("t.agent_first"),
    ];
    for row in &ranked {
        app.insert(std::slice::from_ref(row)).await;
        let summary = app.summary(&owner.key, &[]).await;
        assert_eq!(summary.total_events, 1);
        assert_eq!(summary.events_by_type[0].event_type, row.event_type);
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
            let fresh = keys.clone().map(|key| seen("example.com", key).role(Edge).named("content_retrieved"));
            let again = keys.map(|key| key.saturating_sub(50)).flat_map(|key| {
                [
                    seen("example.com", key).role(Edge).version(1),
                    seen("example.com", key).role(Agent).named("content_cited").session(key + 1),
                ]
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
