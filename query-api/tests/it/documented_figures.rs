//! Checks the figures of docs/api/event-keys.md#figures one by one.

use crate::test_app::{Observation, Query, fetch_on, platform};
use schemas::event::SourceRole::{Agent, Edge, Index, Origin};
use schemas::ids::DrainId;
use serde_json::json;
use uuid::Uuid;

#[tokio::test]
async fn r15_documented_figures_follow_the_counting_rules() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[
        // One fetch reported by four roles, and a second agent.
        fetch_on("example.com", 1).role(Agent).by(10).session(7).agent("alpha"),
        fetch_on("example.com", 1).role(Agent).by(11).session(7).agent("beta"),
        fetch_on("example.com", 1).role(Edge).by(20),
        fetch_on("example.com", 1).role(Origin).by(21),
        fetch_on("example.com", 1).role(Index).by(22).session(9),
        // A fetch reported only by the edge.
        fetch_on("www.example.com", 2).role(Edge).by(20),
        // Events of the first agent, in its session 7 and a new one. The last has no role, which implies an agent.
        fetch_on("www.example.com", 3).role(Agent).by(10).session(7).agent("alpha").named("content_cited"),
        fetch_on("www.example.com", 4).role(Agent).by(10).session(8).agent("alpha").named("content_cited"),
        fetch_on("www.example.com", 5).by(10).session(8).agent("alpha2").named("content_engaged"),
        // An agent's report without agent name and session, and a report without role and session.
        fetch_on("example.com", 6).role(Agent).by(12),
        fetch_on("example.com", 7).by(13).named("com.example.shared"),
    ])
    .await;
    let answer = app.get_summary(&owner.key, &[]).await;
    assert_eq!(
        answer.body,
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

/// Visitors choose the id, so the owner sees how many of a drain's lines share one.
#[tokio::test]
async fn coverage_counts_merged_and_reused_ids() {
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let line = |n: u128, number: u64| {
        let line = fetch_on("example.com", 1).role(Edge).by_org(owner.id);
        Observation { drain: Some(DrainId(Uuid::from_u128(n))), ..line.again(number).accepted(number.try_into().unwrap()) }
    };
    let others_line =
        Observation { drain: Some(DrainId(Uuid::from_u128(3))), ..fetch_on("example.com", 1).role(Edge).by(20).again(9) };
    app.insert(&[
        fetch_on("example.com", 1).role(Agent).by(10).accepted(0),
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
