//! Reads return the same bytes for every order, repetition, block size and merge of the reports (C4).
//!
//! All reports go through the writer. Random reports reuse ids on other hosts and by one observer. They are accepted over several months,
//! in time or too late, and stored in another order.

use crate::random_reports::{OWNERS, add, in_window, owners, random_rows, refill, variety};
use crate::test_app::{Observation, Query, TestApp};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use reqwest::StatusCode;
use schemas::identity::OrgType;
use service_kit::testing::{SeededOrg, random_seed, size};

const REPORTERS: [&str; 3] = ["/agent/events?limit=1000", "/agent/summary", "/agent/series?split=type"];

/// Returns the responses to all reads of an owner and a reporter.
async fn everything(app: &TestApp, owner: &SeededOrg, reporter: &SeededOrg) -> Vec<String> {
    let of_owner = OWNERS.iter().flat_map(|path| [(*path).to_owned(), in_window(path)]).map(|path| (path, owner));
    let of_reporter = REPORTERS.map(|path| (path.to_owned(), reporter));
    let mut answers = Vec::new();
    for (path, org) in of_owner.chain(of_reporter) {
        let answer = app.read(&org.key, &path, &[]).await;
        // Some reads fail: one owner has no access to the domain, and not every event has a report with the id.
        assert!([200, 403, 404].contains(&answer.status), "{path}: {}", answer.raw);
        answers.push(if answer.status == StatusCode::OK { answer.raw } else { answer.status.to_string() });
    }
    answers
}

#[tokio::test]
async fn c4_permuted_and_repeated_reports_give_the_same_reads() {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let app = Query::start().await;
    let owners = owners(&app).await;
    let reporter = app.seed().org("Agent", OrgType::Agent).await;
    let (mut shown, mut varied, cases) = (0, [0; 4], size("C4_CASES", 4));
    for case in 0.. {
        if case >= cases && shown > cases * 12_000 && varied.iter().all(|of| *of > 4) {
            break;
        }
        assert!(case < cases + 40, "the cases don't compare enough: {varied:?} seed {seed}");
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
        shown += expected.iter().map(String::len).sum::<usize>();
        varied.iter_mut().zip(variety(&rows)).for_each(|(sum, of)| *sum += of);
    }
}
