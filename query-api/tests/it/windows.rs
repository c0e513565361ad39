//! Time windows: what lies in them, and that adjacent ones neither share nor lose a retrieval.

use crate::test_app::{NEW_YEAR_MS, TestApp, seen};
use schemas::event::SourceRole::{Agent, Edge};
use serde_json::Value;

const MIDNIGHT_MS: i64 = 86_400_000;

#[tokio::test]
async fn a_retrieval_that_straddles_midnight_is_in_one_window_only() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[
        seen("example.com", 1).role(Edge).by(20).after(MIDNIGHT_MS - 5),
        seen("example.com", 1).role(Agent).by(10).session(7).after(MIDNIGHT_MS + 5),
        seen("example.com", 2).role(Edge).by(20).after(MIDNIGHT_MS + 5).accepted(MIDNIGHT_MS + 7),
        seen("example.com", 2).role(Agent).by(10).session(8).after(MIDNIGHT_MS - 5).accepted(MIDNIGHT_MS + 8),
    ])
    .await;
    let first = app.summary(&owner.key, &[("until", "2026-01-01")]).await;
    let second = app.summary(&owner.key, &[("since", "2026-01-02")]).await;
    for day in [first, second] {
        assert_eq!((day.total_events, day.total_sessions), (1, 1));
        let sources: Vec<_> = day.events_by_source.iter().map(|of| (of.source_role.as_str(), of.count)).collect();
        assert_eq!(sources, [("agent", 1), ("edge", 1)], "both reports count where the event is");
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
        // The event's time decides, as for every window: that of the report that was accepted first.
        seen("example.com", 3).role(Edge).after(2_000).accepted(2_002),
        seen("example.com", 3).role(Agent).after(0).accepted(2_001),
        seen("example.com", 4).role(Edge).after(0).accepted(2_002),
        seen("example.com", 4).role(Agent).after(2_000).accepted(2_001),
        seen("old.example.com", 5).after(0),
    ])
    .await;
    assert_eq!(app.total(&owner.key, &[]).await, 3, "2, 4 and 5");
    assert_eq!(app.total(&owner.key, &[("domain", "news.example.com")]).await, 1);
    assert_eq!(app.total(&owner.key, &[("domain", "old.example.com")]).await, 1);
    assert_eq!(app.total(&owner.key, &[("since", "2025-01-01"), ("until", "2026-01-01T00:00:01.001Z")]).await, 1);
}

/// Of reports that are accepted earlier and stored later: they move their events.
#[tokio::test]
async fn an_event_is_in_the_window_of_its_first_report_however_far_that_is_from_where_it_was() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    // Milliseconds from where it was: around a day, and days before and after.
    let far = [-5 * MIDNIGHT_MS, -MIDNIGHT_MS - 1, -MIDNIGHT_MS, -10, 10, MIDNIGHT_MS, MIDNIGHT_MS + 1, 5 * MIDNIGHT_MS];
    let placed = 6 * MIDNIGHT_MS + 5;
    let keyed = || far.iter().zip(1_u128..);
    // None is timely, so that the first counts.
    let edge = |key| seen("example.com", key).role(Edge).by(20).after(placed).accepted(20 * MIDNIGHT_MS);
    let agent = |key, far: &i64| seen("example.com", key).role(Agent).by(10).after(placed + far).accepted(19 * MIDNIGHT_MS);
    app.insert(&keyed().map(|(_, key)| edge(key)).collect::<Vec<_>>()).await;
    app.restart_writer().await;
    app.insert(&keyed().map(|(far, key)| agent(key, far)).collect::<Vec<_>>()).await;
    let instant = |ms: i64| schemas::instant::text(chrono::DateTime::from_timestamp_millis(NEW_YEAR_MS + ms).unwrap());
    for is_merged in [false, true] {
        for (far, key) in keyed() {
            // The millisecond in which it happened, and no other.
            let (since, until) = (instant(placed + far), instant(placed + far + 1));
            let window = [("since", since.as_str()), ("until", until.as_str())];
            let page = app.page(&owner.key, "/content-owners/events", &window).await;
            let ids: Vec<&Value> = page["items"].as_array().unwrap().iter().map(|item| &item["event_id"]).collect();
            assert_eq!(ids, [&edge(key).shown_id()], "{far} ms from its place, merged: {is_merged}");
        }
        // Each page is of the ten minutes that its event lies in.
        let mut newest: Vec<(i64, u128)> = keyed().map(|(far, key)| (*far, key)).collect();
        newest.sort_unstable_by(|one, other| other.cmp(one));
        for (offset, (far, key)) in newest.into_iter().enumerate() {
            let asked = [("limit", "1"), ("offset", &offset.to_string())];
            let page = app.page(&owner.key, "/content-owners/events", &asked).await;
            assert_eq!(page["items"][0]["event_id"], edge(key).shown_id(), "{far} ms from its place, merged: {is_merged}");
        }
        let around = [instant(placed - 1), instant(placed + 1)];
        let window = [("since", around[0].as_str()), ("until", around[1].as_str())];
        assert_eq!(app.total(&owner.key, &window).await, 0, "nothing is where it was");
        app.merge().await;
    }
}
