//! Whatever the order, the repeats, the blocks and the merges: the same bytes (C4), and figures that agree (R13).
//!
//! Everything goes through the writer. The random reports use ids again on other hosts and by one observer, and are accepted in several
//! months, in time, too late and in another order than they are stored in.

use crate::model::{Read, add, owners, random_rows, refill, variety};
use crate::model_lists::given;
use crate::test_app::{Observation, TestApp, seen};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use schemas::event::SourceRole::{Agent, Edge};
use schemas::identity::OrgType;
use service_kit::testing::{SeededOrg, random_seed};

const OWNERS: [&str; 17] = [
    "/content-owners/summary",
    "/content-owners/events?limit=1000",
    "/content-owners/urls?limit=1000",
    "/content-owners/corroboration?limit=1000",
    "/content-owners/funnel?limit=1000",
    "/content-owners/funnel?limit=1000&by=day",
    "/content-owners/crawlers?limit=1000",
    "/content-owners/coverage",
    "/content-owners/series?by=hour",
    "/content-owners/series?split=role",
    "/content-owners/series?split=agent",
    "/content-owners/series?split=status",
    "/content-owners/events/a",
    "/content-owners/summary?since=2026-01-01T00:00:00.003Z&until=2026-01-01T00:00:00.007Z",
    "/content-owners/events?since=2026-01-01T00:00:00.003Z&until=2026-01-01T00:00:00.007Z",
    "/content-owners/urls?since=2026-01-01T00:00:00.003Z&until=2026-01-01T00:00:00.007Z",
    "/content-owners/coverage?since=2026-01-01T00:00:00.003Z&until=2026-01-01T00:00:00.007Z",
];
const REPORTERS: [&str; 3] = ["/agent/events?limit=1000", "/agent/summary", "/agent/series?split=type"];

/// Every read of one owner and of one reporter, as bytes.
async fn everything(app: &TestApp, owner: &SeededOrg, reporter: &SeededOrg) -> Vec<String> {
    let reads = OWNERS.map(|path| (path, owner)).into_iter().chain(REPORTERS.map(|path| (path, reporter)));
    let mut answers = Vec::new();
    for (path, org) in reads {
        let answer = app.get(&org.key, path, &[]).await;
        let is_found = answer.status == StatusCode::OK;
        assert!(is_found || path.contains("/events/"), "{path}: {}", answer.text);
        answers.push(if is_found { answer.text } else { answer.status.to_string() });
    }
    answers
}

#[tokio::test]
async fn c4_permuted_tripled_and_replayed_reports_read_byte_for_byte_the_same() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::new().await;
    let owners = owners(&app).await;
    let reporter = app.seed().org("Agent", OrgType::Agent).await;
    let (mut shown, mut varied, cases) = (0, [0; 4], given("C4_CASES").unwrap_or(4));
    for case in 0.. {
        if case >= cases && shown > cases * 300 && varied.iter().all(|of| *of > 4) {
            break;
        }
        assert!(case < cases + 40, "the cases compare hardly anything: {varied:?} seed {seed}");
        app.stop_merges().await;
        let rows = random_rows(&mut random, &[reporter.id.0.as_u128(), 2, 1 << 64, 1 << 127]);
        refill(&app, &rows, &mut random).await;
        let owner = &owners[case % 2];
        let expected = everything(&app, owner, &reporter).await;
        let trace = format!("seed {seed} case {case}");
        let mut again: Vec<Observation> = [&rows[..], &rows, &rows].concat();
        again.shuffle(&mut random);
        refill(&app, &again, &mut random).await;
        assert_eq!(everything(&app, owner, &reporter).await, expected, "tripled and permuted: {trace}");
        again.truncate(rows.len());
        again.shuffle(&mut random);
        add(&app, &again, &mut random).await;
        assert_eq!(everything(&app, owner, &reporter).await, expected, "replayed: {trace}");
        app.merge().await;
        assert_eq!(everything(&app, owner, &reporter).await, expected, "merged: {trace}");
        shown += expected[1].len();
        varied.iter_mut().zip(variety(&rows)).for_each(|(sum, of)| *sum += of);
    }
}

/// sum(events_by_type) = total_events = total of the events = the items of all pages = sum of the URLs.
async fn identities(app: &TestApp, key: &str, query: &[(&str, &str)], at_rest: bool, trace: &str) -> u64 {
    let before = app.summary(key, query).await.total_events;
    let page = app.page(key, "/content-owners/events", &[query, &[("limit", "1000")]].concat()).await;
    let urls = app.page(key, "/content-owners/urls", &[query, &[("limit", "1000")]].concat()).await;
    let after = app.summary(key, query).await.total_events;
    let total = page["total"].as_u64().unwrap();
    assert_eq!(
        page["items"].as_array().unwrap().len() as u64,
        total.min(1_000),
        "a page and its total are of one moment: {trace}"
    );
    let of_urls: u64 = urls["items"].as_array().unwrap().iter().map(|url| url["total_events"].as_u64().unwrap()).sum();
    assert!(before <= total && total <= of_urls && of_urls <= after, "{before} {total} {of_urls} {after}: {trace}");
    assert!(!at_rest || before == after, "{trace}");
    for url in urls["items"].as_array().unwrap() {
        let by_type: u64 = url["event_types"].as_array().unwrap().iter().map(|of| of["count"].as_u64().unwrap()).sum();
        assert_eq!(Some(by_type), url["total_events"].as_u64(), "{trace}");
    }
    after
}

#[tokio::test]
async fn every_read_agrees_with_every_other_for_random_histories_filters_and_windows() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::new().await;
    let owners = owners(&app).await;
    for round in 0..8 {
        let rows = random_rows(&mut random, &[1, 2, 1 << 64, 1 << 127]);
        refill(&app, &rows, &mut random).await;
        let read = Read::random(&mut random);
        if read.seen(&rows).is_none() {
            continue;
        }
        let query = read.query();
        let query: Vec<(&str, &str)> = query.iter().map(|(name, value)| (*name, value.as_str())).collect();
        identities(&app, &owners[read.owner].key, &query, true, &format!("seed {seed} round {round} {read:?}")).await;
    }
}

#[tokio::test]
async fn every_read_agrees_with_every_other_while_rows_arrive_and_merge() {
    const BLOCKS: u128 = 25;
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = TestApp::new().await;
    let owner = app.seed().owner_of("example.com").await;
    let arriving = async {
        for block in 0..BLOCKS {
            let keys = block * 30..(block + 1) * 30;
            let mut rows: Vec<_> = keys.clone().map(|key| seen("example.com", key).role(Edge).id(&key.to_string())).collect();
            // The agent's report of what the edge saw before, and repeats of anything so far.
            rows.extend(keys.map(|key| key.saturating_sub(30)).map(|key| seen("example.com", key).role(Agent).session(key + 1)));
            rows.extend(
                (0..20).map(|_| random.random_range(0..=block * 30)).map(|key| seen("example.com", key).role(Edge).accepted(7)),
            );
            app.insert(&rows).await;
            if block % 5 == 0 {
                app.merge().await;
            }
        }
    };
    let polling = async {
        let mut last = 0;
        while last < u64::try_from(BLOCKS * 30).unwrap() {
            let found = identities(&app, &owner.key, &[("since", "2025-12-31")], false, &format!("seed {seed}")).await;
            assert!(found >= last && found % 30 == 0, "a block is visible whole, once and for ever: {found} after {last}");
            last = found;
        }
    };
    tokio::join!(arriving, polling);
}
