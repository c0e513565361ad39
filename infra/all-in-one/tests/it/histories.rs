//! S1: random histories of organisations, domains, delegations, settings, sessions and events; every read equals a model
//! in memory, and every total equals every other. How many: `MODEL_ROUNDS` (acceptance asks for 10000); one of them alone:
//! `MODEL_HISTORY`, with the `TEST_SEED` that a failure names.
//!
//! Must not ask a history's reads while its own step changes something: what is compared is what each answer says.

mod answers;
mod judge;
mod life;
mod model;
mod town;

use futures::{StreamExt as _, stream};
use life::{Life, STEPS};
use service_kit::testing::random_seed;
use town::Town;

/// Histories of an ordinary run.
const USUAL: u64 = 40;
/// Histories that go through their steps together, so that each block of rows and each moment serves many.
const TOGETHER: usize = 40;
/// Requests under way at a time.
const PARALLEL: usize = 6;

fn given(setting: &str) -> Option<u64> {
    std::env::var_os(setting).map(|number| number.to_string_lossy().parse().expect("the setting is a number"))
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_every_read_of_every_random_history_equals_the_model() {
    let seed = random_seed();
    let numbers = given("MODEL_HISTORY").map_or(0..given("MODEL_ROUNDS").unwrap_or(USUAL), |number| number..number + 1);
    let numbers: Vec<u64> = numbers.collect();
    let town = Town::build().await;
    let mut compared = 0;
    for together in numbers.chunks(TOGETHER) {
        town.empty().await;
        town.rewind();
        let casts = town.invite(together.len()).await;
        let mut lives: Vec<Life> = together.iter().zip(casts).map(|(number, cast)| Life::new(seed, *number, cast)).collect();
        for _ in 0..STEPS {
            town.step();
            stream::iter(&mut lives).for_each_concurrent(PARALLEL, |life| life.act(&town)).await;
            let fresh: Vec<_> = lives.iter_mut().flat_map(|life| std::mem::take(&mut life.fresh)).collect();
            town.insert(&fresh).await;
        }
        let judged = stream::iter(&mut lives).map(|life| life.judge(&town, seed)).buffer_unordered(PARALLEL);
        compared += judged.collect::<Vec<usize>>().await.into_iter().sum::<usize>();
        let last = together.last().map_or(0, |number| number + 1);
        if last % 400 == 0 {
            eprintln!("{last} histories, {compared} retrievals compared");
        }
    }
    assert!(compared > numbers.len(), "the histories compared hardly anything: seed {seed}");
}
