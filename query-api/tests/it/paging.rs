//! `limit` and `offset`: exact errors, and pages that neither overlap nor skip.

use crate::lists::OWNERS;
use crate::test_app::{TestApp, seen};
use reqwest::StatusCode;
use schemas::event::SourceRole::{Agent, Edge};
use schemas::identity::OrgType;
use serde_json::Value;
use std::collections::BTreeSet;

const EVENTS: &str = "/content-owners/events";

#[tokio::test]
async fn r9_lists_reject_bad_limits_and_clamp_large_ones() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let lists = OWNERS.map(|path| (path, &owner.key)).into_iter().chain([("/agent/events", &agent.key)]);
    for (path, key) in lists {
        for bad in ["0", "-1", "1.5", "+1", " 1", "0x10", "１", "", "1e3", "NaN", "1;2", "' OR 1=1"] {
            assert_eq!(app.get(key, path, &[("limit", bad)]).await.status, StatusCode::BAD_REQUEST, "{path} {bad}");
        }
        for bad in ["-1", "1.5", "+1", "", "0x10", "9223372036854775808", "18446744073709551616"] {
            assert_eq!(app.get(key, path, &[("offset", bad)]).await.status, StatusCode::BAD_REQUEST, "{path} {bad}");
        }
        let twice = [("limit", "1"), ("limit", "1")];
        assert_eq!(app.get(key, path, &twice).await.status, StatusCode::BAD_REQUEST, "{path}");
        for (large, held) in [("1000", 1_000), ("1001", 1_000), ("1000000000", 1_000), ("18446744073709551616", 1_000)] {
            assert_eq!(app.page(key, path, &[("limit", large)]).await["limit"], held, "{path} {large}");
        }
        let default = app.page(key, path, &[]).await;
        assert_eq!(default["limit"], if path == "/content-owners/urls" { 20 } else { 100 }, "{path}");
    }
}

#[tokio::test]
async fn r10_pages_beyond_the_end_are_empty_with_the_total() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.insert(&[seen("example.com", 1), seen("example.com", 2)]).await;
    for path in OWNERS {
        let total = app.page(&owner.key, path, &[]).await["total"].clone();
        for offset in ["2", "1000", "1000000000", "4000000000000000000"] {
            let page = app.page(&owner.key, path, &[("offset", offset)]).await;
            assert_eq!((page["items"].as_array().unwrap().len(), &page["total"]), (0, &total), "{path} {offset}");
            assert_eq!(page["offset"].to_string(), offset);
        }
    }
}

/// The ids of a list, page by page.
async fn walk(app: &TestApp, key: &str, limit: usize) -> Vec<String> {
    let mut ids = Vec::new();
    loop {
        let (limit, offset) = (limit.to_string(), ids.len().to_string());
        let page = app.page(key, EVENTS, &[("limit", &limit), ("offset", &offset)]).await;
        let items = page["items"].as_array().unwrap();
        if items.is_empty() {
            return ids;
        }
        ids.extend(items.iter().map(|item| item["event_id"].as_str().unwrap().to_owned()));
    }
}

#[tokio::test]
async fn pages_of_events_with_equal_times_are_the_whole_list_in_one_order_at_any_limit() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.stop_merges().await;
    // Ten times, a third of them seen twice, ids that do not sort as keys do.
    let row =
        |key: u128| seen("example.com", key).after(i64::try_from(key % 10).unwrap()).id(&format!("id-{}", key * 7919 % 997));
    for block in 0..4_u128 {
        let rows: Vec<_> = (0..500)
            .filter(|key| key % 4 == block)
            .flat_map(|key| [Some(row(key).role(Agent)), (key % 3 == 0).then(|| row(key).role(Edge).after(99))])
            .flatten()
            .collect();
        app.insert(&rows).await;
    }
    let mut keys: Vec<u128> = (0..500).collect();
    keys.sort_by_key(|key| (std::cmp::Reverse(key % 10), row(*key).keys().event()));
    let expected: Vec<_> = keys.iter().map(|key| format!("id-{}", key * 7919 % 997)).collect();
    for limit in [7, 50, 64, 101, 1_000] {
        assert_eq!(walk(&app, &owner.key, limit).await, expected, "limit {limit}");
    }
}

/// From so many on a page asks first whether there is anything behind them.
#[tokio::test]
async fn a_page_behind_ten_thousand_events_holds_the_rest_of_them() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let agent = app.seed().org("Agent", OrgType::Agent).await;
    let rows: Vec<_> = (0..10_007_u32)
        .map(|nth| seen("example.com", u128::from(nth)).role(Agent).of(agent.id).after(-i64::from(nth)).id(&nth.to_string()))
        .collect();
    app.insert(&rows).await;
    for (key, path) in [(&owner.key, EVENTS), (&agent.key, "/agent/events")] {
        for (offset, held) in [("9999", 9_999..10_004), ("10000", 10_000..10_005), ("10003", 10_003..10_007), ("10007", 0..0)] {
            let page = app.page(key, path, &[("limit", "5"), ("offset", offset)]).await;
            let ids: Vec<&str> =
                page["items"].as_array().unwrap().iter().map(|item| item["event_id"].as_str().unwrap()).collect();
            assert_eq!(ids, held.map(|nth: u32| nth.to_string()).collect::<Vec<_>>(), "{path} {offset}");
            assert_eq!(page["total"], 10_007, "{path} {offset}");
        }
    }
}

#[tokio::test]
async fn what_arrives_later_but_happened_earlier_moves_no_page_before_it() {
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let rows = |keys: std::ops::Range<u128>| {
        keys.map(|key| seen("example.com", key).after(-i64::try_from(key).unwrap()).id(&key.to_string())).collect::<Vec<_>>()
    };
    app.insert(&rows(0..200)).await;
    let first = app.page(&owner.key, EVENTS, &[("limit", "100")]).await;
    app.insert(&rows(200..300)).await;
    // Repeats move nothing either.
    app.insert(&rows(0..50)).await;
    let again = app.page(&owner.key, EVENTS, &[("limit", "100")]).await;
    assert_eq!(first["items"], again["items"]);
    assert_eq!((&first["total"], &again["total"]), (&Value::from(200), &Value::from(300)));
    let rest = app.page(&owner.key, EVENTS, &[("limit", "1000"), ("offset", "100")]).await;
    let ids: BTreeSet<_> = [&first, &rest]
        .iter()
        .flat_map(|page| page["items"].as_array().unwrap())
        .map(|item| item["event_id"].to_string())
        .collect();
    assert_eq!(ids.len(), 300);
}

#[tokio::test]
async fn an_empty_owner_has_empty_pages() {
    let app = TestApp::new().await;
    let owner = app.seed().org("Nobody", OrgType::ContentOwner).await;
    for path in OWNERS {
        let page = app.page(&owner.key, path, &[("since", "2026-01-01")]).await;
        assert_eq!((page["items"].as_array().unwrap().len(), page["total"].as_u64()), (0, Some(0)), "{path}");
    }
}
