//! S1: compares lists, single events, own figures and sessions with a model, for random reports processed by the merge function.

mod agents;
mod model;
mod owners;
mod reports;
mod sessions;
mod stored_reports;

use super::Reads;
use super::event_page::{EventPage, EventRow};
use super::list_limits::ListLimits;
use crate::parameters::cursor::Cursor;
use crate::parameters::paging::Paging;
use crate::parameters::period::Period;
use crate::read_limiter::ReadSettings;
use crate::reads::{ListPage as _, Rows as _};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reports::{Copy, random_copies, random_time};
use service_kit::databases;
use service_kit::http::ApiError;
use service_kit::testing::{TestStores, random_seed, size};
use stored_reports::WriterTables;

/// Limit for tests whose first rounds don't compare enough.
const MAX_ROUNDS: usize = 100;

/// Low enough that random reports exceed it.
const MOST: ListLimits = ListLimits { types: 1, types_of_page: 1, agents: 2, in_series: 2, others_in_series: 2 };

struct Rounds {
    reads: Reads,
    world: WriterTables,
    random: StdRng,
    seed: u64,
}

impl Rounds {
    async fn new() -> Self {
        let seed = random_seed();
        let stores = TestStores::fresh().await;
        let client = databases::clickhouse(&stores.clickhouse).unwrap();
        let reads = Reads { list_limits: MOST, ..Reads::new(&client, &ReadSettings::default()) };
        Self { reads, world: WriterTables::new(&stores).await, random: StdRng::seed_from_u64(seed), seed }
    }

    /// Stores a round's reports in blocks, and compares after the last block and some others. Repeats rounds until `check` has compared
    /// enough.
    async fn compare(mut self, mut check: impl AsyncFnMut(&Reads, &[Copy], &mut StdRng, &str) -> bool) {
        let rounds = size("MODEL_ROUNDS", 5);
        for round in 0.. {
            assert!(round < rounds + MAX_ROUNDS, "the rounds don't compare enough: seed {}", self.seed);
            let copies = random_copies(&mut self.random);
            if self.compare_round(round, &copies, &mut check).await && round + 1 >= rounds {
                break;
            }
        }
    }

    async fn compare_round(
        &mut self,
        round: usize,
        copies: &[Copy],
        check: &mut impl AsyncFnMut(&Reads, &[Copy], &mut StdRng, &str) -> bool,
    ) -> bool {
        self.world.clear().await;
        let (mut stored, mut is_enough) = (0, false);
        while stored < copies.len() {
            let block = self.random.random_range(1..=copies.len() - stored);
            self.world.accept(&copies[stored..stored + block]).await;
            stored += block;
            if stored == copies.len() || self.random.random_bool(0.3) {
                let trace = format!("seed {} round {round} after {stored} of {} copies", self.seed, copies.len());
                is_enough = check(&self.reads, &copies[..stored], &mut self.random, &trace).await;
            }
        }
        is_enough
    }
}

fn random_period(random: &mut StdRng) -> Period {
    let (one, other) = (random_time(random), random_time(random));
    Period {
        from_ms: random.random_bool(0.4).then_some(one.min(other)),
        before_ms: random.random_bool(0.4).then_some(one.max(other)),
        ..Period::default()
    }
}

/// Returns a page's rows, its total and the cursor of the next page.
async fn rows(page: Result<EventPage, ApiError>, trace: &str) -> (Vec<EventRow>, u64, Option<String>) {
    let mut page = page.unwrap_or_else(|error| panic!("{error:?}: {trace}"));
    let (total, next) = (page.total(), page.next_page().map(str::to_owned));
    let mut rows = Vec::new();
    while let Some(row) = page.next().await.unwrap() {
        rows.push(row);
    }
    (rows, total, next)
}

/// Compares a list with the expected one: as a whole, by offset and by cursors.
async fn compare_pages(
    expected: &[EventRow],
    random: &mut StdRng,
    trace: &str,
    read: impl AsyncFn(Paging, &Cursor) -> Result<EventPage, ApiError>,
) {
    let first = Cursor::default;
    let total = expected.len() as u64;
    let (offset, limit) = (random.random_range(0..total + 2), random.random_range(1..9));
    for at in [Paging { limit: 1_000, offset: 0 }, Paging { limit, offset }] {
        let (found, counted, _) = rows(read(at, &first()).await, trace).await;
        let page: Vec<&EventRow> = expected.iter().skip(at.offset as usize).take(at.limit as usize).collect();
        assert_eq!((found.iter().collect::<Vec<_>>(), counted), (page, total), "{at:?} {trace}");
    }
    let (mut walked, mut cursor) = (Vec::new(), first());
    loop {
        let (found, counted, next) = rows(read(Paging { limit, offset: 0 }, &cursor).await, trace).await;
        assert_eq!(counted, total, "{trace}");
        assert_eq!(next.is_some(), found.len() as u64 == limit, "{trace}");
        walked.extend(found);
        assert!(walked.len() <= expected.len(), "paging returns an event twice: {trace}");
        let Some(next) = next else { break };
        cursor = Cursor::parse(Some(&next)).unwrap();
    }
    assert_eq!(walked, expected, "pages of {limit}: {trace}");
}
