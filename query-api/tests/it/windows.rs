//! Time windows: what lies in them, and that adjacent ones neither share nor lose a retrieval.

use crate::test_app::{TestApp, seen};
use schemas::event::SourceRole::{Agent, Edge};

const MIDNIGHT_MS: i64 = 86_400_000;

#[tokio::test]
async fn a_retrieval_that_straddles_midnight_is_in_one_window_only() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[
        seen("example.com", 1).role(Edge).by(20).after(MIDNIGHT_MS - 5),
        seen("example.com", 1).role(Agent).by(10).session(7).after(MIDNIGHT_MS + 5),
        seen("example.com", 2).role(Edge).by(20).after(MIDNIGHT_MS + 5),
        seen("example.com", 2).role(Agent).by(10).session(8).after(MIDNIGHT_MS - 5),
    ])
    .await;
    let first = app.summary(&owner.key, &[("until", "2026-01-01")]).await;
    let second = app.summary(&owner.key, &[("since", "2026-01-02")]).await;
    for day in [first, second] {
        assert_eq!((day.total_events, day.total_sessions), (1, 1));
        let sources: Vec<_> = day.events_by_source.iter().map(|of| (of.source_role.as_str(), of.count)).collect();
        assert_eq!(sources, [("agent", 1), ("edge", 1)], "the other observer's report goes where the agent's goes");
    }
    assert_eq!(app.total(&owner.key, &[]).await, 2);
}

#[tokio::test]
async fn windows_cut_anywhere_add_up_to_the_whole() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let rows: Vec<_> = (0..40)
        .flat_map(|key| {
            let at = i64::try_from(key).unwrap();
            [seen("example.com", key).role(Edge).after(at), seen("example.com", key / 2).role(Agent).after(20 - at)]
        })
        .collect();
    app.insert(&rows).await;
    for cut in 0..60 {
        let at = format!("2026-01-01T00:00:00.0{cut:02}Z");
        let before = app.total(&owner.key, &[("until", &at)]).await;
        let after = app.total(&owner.key, &[("since", &at)]).await;
        assert_eq!(before + after, 40, "cut at {at}");
    }
}

#[tokio::test]
async fn a_window_is_half_open_to_the_millisecond() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[seen("example.com", 1).after(1_500)]).await;
    for (since, until, expected) in [
        ("2026-01-01T00:00:01.500Z", "2026-01-01T00:00:01.501Z", 1),
        ("2026-01-01T00:00:01.500Z", "2026-01-01T00:00:01.500Z", 0),
        ("2026-01-01T00:00:01.4999Z", "2026-01-01T00:00:01.5001Z", 1),
        ("2026-01-01T00:00:01.5001Z", "2026-01-02", 0),
        ("2026-01-01T05:00:00+05:00", "2026-01-01T00:00:02-00:00", 1),
        ("2025-12-31", "2025-12-31", 0),
        ("2026-01-01", "2026-01-01", 1),
        ("0001-01-01", "9999-12-31", 1),
    ] {
        assert_eq!(app.total(&owner.key, &[("since", since), ("until", until)]).await, expected, "{since} {until}");
    }
}

#[tokio::test]
async fn history_before_visible_from_belongs_to_the_earlier_owner() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.seed().verify(owner.id, "old.example.com").await;
    sqlx::query("UPDATE domains SET visible_from = '2026-01-01T00:00:01.0005Z' WHERE domain = 'example.com'")
        .execute(&app.stores.pool)
        .await
        .unwrap();
    app.insert(&[
        seen("example.com", 1).after(1_000),
        seen("news.example.com", 2).after(1_001),
        // The agent's time decides, as for every window.
        seen("example.com", 3).role(Edge).after(2_000),
        seen("example.com", 3).role(Agent).after(0),
        seen("example.com", 4).role(Edge).after(0),
        seen("example.com", 4).role(Agent).after(2_000),
        seen("old.example.com", 5).after(0),
    ])
    .await;
    assert_eq!(app.total(&owner.key, &[]).await, 3, "2, 4 and 5");
    assert_eq!(app.total(&owner.key, &[("domain", "news.example.com")]).await, 1);
    assert_eq!(app.total(&owner.key, &[("domain", "old.example.com")]).await, 1);
    assert_eq!(app.total(&owner.key, &[("since", "2025-01-01"), ("until", "2026-01-01T00:00:01.001Z")]).await, 1);
}
