//! R13: figures for random filters and periods agree while events arrive. Each response describes one moment, and a later one never counts
//! less.

use crate::test_app::{Query, fetch_on};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use schemas::event::SourceRole::{Agent, Edge, Origin};
use serde_json::Value;
use service_kit::testing::random_seed;

const BLOCKS: u128 = 20;
const HOSTS: [&str; 3] = ["example.com", "news.example.com", "a.b.example.com"];

/// Returns a random subset of `domain`, `since` and `until`.
fn filter(random: &mut StdRng) -> Vec<(&'static str, String)> {
    let (one, other) = (random.random_range(0..10), random.random_range(0..10));
    let at = |second: u32| format!("2026-01-01T00:00:0{second}Z");
    let all = [
        ("domain", (*["example.com", "news.example.com", "b.example.com"].choose(random).unwrap()).to_owned()),
        ("since", at(one.min(other))),
        ("until", at(one.max(other))),
    ];
    all.into_iter().filter(|_| random.random()).collect()
}

fn sum(items: &Value, member: &str) -> u64 {
    items.as_array().unwrap().iter().map(|item| item[member].as_u64().unwrap()).sum()
}

#[tokio::test]
async fn figures_agree_while_events_arrive() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = Query::start().await;
    let owner = app.seed().owner_of("example.com").await;
    let arriving = async {
        for block in 0..BLOCKS {
            let row = |key: u128| {
                let host = HOSTS[usize::try_from(key % 3).unwrap()];
                fetch_on(host, key).after(i64::try_from(key % 10).unwrap() * 1_000).id(&key.to_string())
            };
            // Insert new events, others' reports of known events, and repeated reports.
            let fresh = block * 30..(block + 1) * 30;
            let mut rows: Vec<_> = fresh.clone().map(|key| row(key).role(Edge)).collect();
            rows.extend(fresh.clone().map(|key| row(key.saturating_sub(30)).role(Agent).session(key + 1)));
            rows.extend(fresh.map(|key| row(key / 2).role(Origin)));
            app.insert(&rows).await;
            if block % 4 == 3 {
                app.merge().await;
            }
        }
    };
    let asking = async {
        loop {
            let query = filter(&mut random);
            let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let listed = [&query[..], &[("limit", "1000")]].concat();
            let trace = format!("seed {seed} {query:?}");
            let before = app.summary(&owner.key, &query).await;
            let events = app.page(&owner.key, "/content-owners/events", &listed).await;
            let urls = app.page(&owner.key, "/content-owners/urls", &listed).await;
            let seen_by = app.page(&owner.key, "/content-owners/corroboration", &listed).await;
            let funnel = app.page(&owner.key, "/content-owners/funnel", &listed).await;
            let series = app.page(&owner.key, "/content-owners/series", &query).await;
            let after = app.summary(&owner.key, &query).await;
            let total = events["total"].as_u64().unwrap();
            assert_eq!(events["items"].as_array().unwrap().len() as u64, total, "{trace}");
            let counts = [
                before.total_events,
                total,
                sum(&urls["items"], "total_events"),
                sum(&seen_by["items"], "retrievals"),
                sum(&funnel["items"], "retrieved"),
                sum(&series["items"], "total_events"),
                after.total_events,
            ];
            assert!(counts.is_sorted(), "{counts:?}: {trace}");
            let all = app.total(&owner.key, &[]).await;
            assert_eq!(all % 30, 0, "C3: blocks are visible whole or not at all: {trace}");
            if all == u64::try_from(BLOCKS * 30).unwrap() {
                return;
            }
        }
    };
    tokio::join!(arriving, asking);
}
