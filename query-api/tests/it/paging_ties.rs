//! R12: ten thousand events of ten moments. Whatever the limit, the pages are the list: none skips, none repeats.
//! Every page of every limit from 1 to 101 is walked with `TEST_ROUNDS` of 101 or more; else of two limits, and of
//! one in four of the others a page at a random place.

use crate::test_app::{TestApp, seen};
use query_api::{ReadSettings, Settings, State, router};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use schemas::event::SourceRole::{Agent, Edge};
use service_kit::testing::{TestServer, random_seed, size};

const EVENTS: u128 = 10_000;
const PATH: &str = "/content-owners/events";

/// Ids of one page.
async fn page(app: &TestApp, key: &str, limit: usize, offset: usize) -> Vec<String> {
    let page = app.page(key, PATH, &[("limit", &limit.to_string()), ("offset", &offset.to_string())]).await;
    assert_eq!(page["total"].as_u64().map(u128::from), Some(EVENTS), "limit {limit} offset {offset}");
    page["items"].as_array().unwrap().iter().map(|item| item["event_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn r12_ten_thousand_events_of_ten_moments_are_the_union_of_their_pages_at_any_limit() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    app.stop_merges().await;
    let id = |key: u128| format!("id-{:04}", key * 7_919 % EVENTS);
    let row = |key: u128| seen("example.com", key).after(i64::try_from(key % 10).unwrap()).id(&id(key));
    let rows: Vec<_> = (0..EVENTS)
        .flat_map(|key| [Some(row(key).role(Agent)), (key % 5 == 0).then(|| row(key).role(Edge).after(99))])
        .flatten()
        .collect();
    for (number, block) in rows.chunks(2_500).enumerate() {
        app.insert(block).await;
        if number == 1 {
            app.merge().await;
        }
    }
    let mut expected: Vec<u128> = (0..EVENTS).collect();
    expected.sort_by_cached_key(|key| (std::cmp::Reverse(key % 10), row(*key).keys().event()));
    let expected: Vec<String> = expected.into_iter().map(id).collect();

    let walked: Vec<usize> = match size("TEST_ROUNDS", 1) {
        101.. => (1..=101).collect(),
        _ => vec![333, 1_000],
    };
    for limit in &walked {
        let mut union = Vec::new();
        while union.len() < expected.len() {
            let ids = page(&app, &owner.key, *limit, union.len()).await;
            assert!(!ids.is_empty(), "limit {limit} after {}", union.len());
            union.extend(ids);
        }
        assert_eq!(union, expected, "limit {limit}");
    }
    let sampled = (random.random_range(1..=4)..=101).step_by(4);
    for limit in sampled.filter(|limit| !walked.contains(limit)) {
        let offset = random.random_range(0..expected.len());
        let part = &expected[offset..usize::min(offset + limit, expected.len())];
        assert_eq!(page(&app, &owner.key, limit, offset).await, part, "seed {seed} limit {limit} offset {offset}");
    }
}

/// What was reported is read of the events on the page alone.
#[tokio::test]
async fn r18_however_much_was_reported_of_one_moment_a_page_costs_a_page() {
    let app = TestApp::new().await;
    // Less than half of what was reported.
    let reads = ReadSettings { read_memory: 100 << 20, ..ReadSettings::default() };
    let settings = Settings { reads, ..Settings::on(app.stores.clickhouse.clone(), app.stores.postgres.clone()) };
    let app = app.served_by(TestServer::start(router(State::connect(&settings).await.unwrap())).await);
    let owner = app.seed().owner_of("example.com").await;
    let long = format!(r#"{{"n":"{}"}}"#, "x".repeat(60_000));
    let row = |key: u128| seen("example.com", key).role(Agent).named("content_cited").id(&key.to_string()).data(&long);
    for block in 0..8 {
        app.insert(&(block * 500..block * 500 + 500).map(row).collect::<Vec<_>>()).await;
    }
    let mut expected: Vec<u128> = (0..4_000).collect();
    expected.sort_by_cached_key(|key| row(*key).keys().event());
    for _ in 0..2 {
        let page = app.page(&owner.key, PATH, &[("limit", "1"), ("offset", "4")]).await;
        assert_eq!((&page["total"], &page["items"][0]["event_id"]), (&4_000.into(), &expected[4].to_string().into()));
        app.merge().await;
    }
}
