//! S1: random histories of organisations, domains, delegations, settings, sessions and events; every read equals a model
//! in memory, and every total equals every other. How many: `MODEL_ROUNDS` (10000 before a release). A failure names the
//! seed and the number of its history: `TEST_SEED=… MODEL_FIRST=<number> MODEL_ROUNDS=1` replays that one alone.

mod answers;
mod judge;
mod life;
mod model;
mod town;

use futures::{StreamExt as _, stream};
use life::{Life, STEPS};
use service_kit::testing::{random_seed, size};
use town::TestApp;

/// Histories of an ordinary run.
const USUAL: usize = 20;
/// Histories that go through their steps together, so that each block of reports and each moment serves many.
const TOGETHER: usize = 40;
/// Requests under way at a time.
const PARALLEL: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn s1_every_read_of_every_random_history_equals_the_model() {
    compare_with_the_model(&TestApp::build().await, size("MODEL_ROUNDS", USUAL)).await;
}

/// No read asks for what ClickHouse remembers of conditions; the proxy does so in the reads' stead, and they equal the model.
///
/// The engine of `cargo local` gives that memory no room whatever it is asked, so that here it remembers nothing. Whether a server
/// counts right by its memory is seen on that server: `CLICKHOUSE_URL=http://<user>:<password>@<host>:8123 cargo test -p end-to-end
/// s1_every_read_asks`, with `query_condition_cache_size` above 0 there.
#[tokio::test(flavor = "multi_thread")]
async fn s1_every_read_asks_the_store_to_remember_no_condition_and_equals_the_model_where_the_proxy_asks_it_to() {
    let town = TestApp::build_asking_to_remember().await;
    compare_with_the_model(&town, size("MODEL_ROUNDS", USUAL) / 2).await;
    let reads = town.reads_of_the_store();
    assert!(reads.len() > 50, "{} reads went by the proxy", reads.len());
    let remember = ("use_query_condition_cache".to_owned(), "0".to_owned());
    let asking = reads.iter().find(|read| !read.settings.contains(&remember));
    assert_eq!(asking, None, "a read that lets the store go by what it remembers");
}

async fn compare_with_the_model(town: &TestApp, rounds: usize) {
    let (seed, first) = (random_seed(), size("MODEL_FIRST", 0));
    let numbers: Vec<u64> = (0..rounds).map(|number| (first + number) as u64).collect();
    let mut compared = 0;
    for together in numbers.chunks(TOGETHER) {
        town.rewind();
        let casts = town.invite(together.len()).await;
        let mut lives: Vec<Life> = together.iter().zip(casts).map(|(number, cast)| Life::new(seed, *number, cast)).collect();
        for _ in 0..STEPS {
            town.step();
            stream::iter(&mut lives).for_each_concurrent(PARALLEL, |life| life.act(town)).await;
            let fresh: Vec<_> = lives.iter_mut().flat_map(|life| std::mem::take(&mut life.fresh)).collect();
            town.insert(&fresh).await;
        }
        let judged = stream::iter(&mut lives).map(|life| life.judge(town, seed)).buffer_unordered(PARALLEL);
        compared += judged.collect::<Vec<usize>>().await.into_iter().sum::<usize>();
        let last = together.last().map_or(0, |number| number + 1);
        if last % 400 == 0 {
            eprintln!("{last} histories, {compared} retrievals compared");
        }
    }
    assert!(compared > numbers.len(), "the histories compared hardly anything: seed {seed}");
}
