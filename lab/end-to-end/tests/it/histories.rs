//! S1: random histories of organizations, domains, delegations, settings, sessions and events. Every read equals an in-memory
//! model, and all totals agree.
//!
//! `MODEL_ROUNDS` sets the number of histories (10000 before a release). A failure prints the seed and the history's number:
//! `TEST_SEED=… MODEL_FIRST=<number> MODEL_ROUNDS=1` repeats that history.

mod expected_responses;
mod compare;
mod random_history;
mod model;
mod test_app;

use futures::{StreamExt as _, stream};
use random_history::{RandomHistory, STEPS};
use service_kit::testing::{random_seed, size};
use test_app::{Histories, TestApp, create_organizations};

/// Number of histories by default.
const USUAL: usize = 20;
/// Histories that run in parallel and share blocks and clock steps.
const TOGETHER: usize = 40;
/// Maximum concurrent requests.
const PARALLEL: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn s1_reads_of_random_histories_equal_the_model() {
    compare_with_the_model(&Histories::start().await, size("MODEL_ROUNDS", USUAL)).await;
}

/// Reads never enable ClickHouse's query condition cache. In this test, a proxy enables it for them, and reads still equal the model.
///
/// The engine of `cargo local` has no memory for this cache, so nothing is cached here. To test with a cache, set
/// `query_condition_cache_size` above 0 on a server, and run `CLICKHOUSE_URL=http://<user>:<password>@<host>:8123 cargo test -p end-to-end
/// s1_reads_without`.
#[tokio::test(flavor = "multi_thread")]
async fn s1_reads_without_condition_cache_equal_the_model() {
    let town = Histories::with_query_condition_cache().await;
    compare_with_the_model(&town, size("MODEL_ROUNDS", USUAL) / 2).await;
    let reads = town.clickhouse_reads();
    assert!(reads.len() > 50, "only {} reads used the proxy", reads.len());
    let remember = ("use_query_condition_cache".to_owned(), "0".to_owned());
    let asking = reads.iter().find(|read| !read.settings.contains(&remember));
    assert_eq!(asking, None, "a read permits the condition cache");
}

async fn compare_with_the_model(town: &TestApp, rounds: usize) {
    let (seed, first) = (random_seed(), size("MODEL_FIRST", 0));
    let numbers: Vec<u64> = (0..rounds).map(|number| (first + number) as u64).collect();
    let mut compared = 0;
    for together in numbers.chunks(TOGETHER) {
        town.reset_clock();
        let casts = create_organizations(town, together.len()).await;
        let mut lives: Vec<RandomHistory> =
            together.iter().zip(casts).map(|(number, cast)| RandomHistory::new(seed, *number, cast)).collect();
        for _ in 0..STEPS {
            town.advance_clock();
            stream::iter(&mut lives).for_each_concurrent(PARALLEL, |life| life.make_change(town)).await;
            let fresh: Vec<_> = lives.iter_mut().flat_map(|life| std::mem::take(&mut life.fresh)).collect();
            town.insert(&fresh).await;
        }
        let judged = stream::iter(&mut lives).map(|life| life.compare_all(town, seed)).buffer_unordered(PARALLEL);
        compared += judged.collect::<Vec<usize>>().await.into_iter().sum::<usize>();
        let last = together.last().map_or(0, |number| number + 1);
        if last % 400 == 0 {
            eprintln!("{last} histories, {compared} retrievals compared");
        }
    }
    assert!(compared > numbers.len(), "too little was compared: seed {seed}");
}
