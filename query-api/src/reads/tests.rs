//! S1: compares every read with a second, naive calculation from the same reports (docs/api/counting.md).
//!
//! Reports are merged and encoded as the writer does it, in blocks and with tombstones. The model has all reports and doesn't share code
//! with the merge function.

mod crawlers;
mod hosts;
mod failed_fetches;
mod filters;
mod lists;
mod model;
mod one_number;
mod reports;
mod series;
mod stored_reports;
mod summary;
mod fixture;

use crate::parameters::event_filter::EventFilter;
use filters::Filters;
use fixture::{OwnerRead, ReadFixture};
use model::Event;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use schemas::log::FailedFetch;
use service_kit::testing::{random_seed, size};

/// Minimum average number of compared events per round.
const EVENTS_PER_ROUND: usize = 2;
/// Limit for tests whose first rounds don't compare enough.
const MAX_ROUNDS: usize = 200;
/// Limit for tests that repeat `compare` until it has compared enough kinds of values.
const MOST_COMPARISONS: usize = 5;

/// One comparison: an owner's read, and the events that the model returns for it.
struct Round<'a> {
    world: &'a ReadFixture,
    read: &'a OwnerRead,
    filters: Filters,
    filter: EventFilter,
    events: Vec<Event<'a>>,
    lines: Vec<&'a FailedFetch>,
    trace: String,
}

/// Runs rounds with random reports and reads until enough events are compared.
async fn compare(rounds: usize, mut check: impl AsyncFnMut(&Round<'_>, &mut StdRng)) {
    let seed = random_seed();
    let mut random = StdRng::seed_from_u64(seed);
    let world = ReadFixture::new().await;
    let (rounds, mut compared) = (size("MODEL_ROUNDS", rounds), 0);
    for round in 0.. {
        if round >= rounds && compared >= EVENTS_PER_ROUND * rounds {
            break;
        }
        assert!(round < rounds + MAX_ROUNDS, "the rounds don't compare enough: seed {seed}");
        let reports = reports::random(&mut random);
        let copies = failed_fetches::random(&mut random);
        world.store.fill(&reports, &copies, &mut random).await;
        let (events, lines) = (model::events(&reports), failed_fetches::counted(&copies));
        for nth in 0..3 {
            let read = world.random_read(&mut random).await;
            let filters = Filters::random(3 * round + nth, &mut random);
            let seen: Vec<Event<'_>> =
                events.iter().filter(|event| read.shows(event) && filters.matches(event, &read)).cloned().collect();
            let is_seen = |line: &&&FailedFetch| filters::is_covered(line, &read) && filters.matches_line(line);
            let lines = lines.iter().filter(is_seen).copied().collect();
            compared += seen.len();
            let trace = format!("seed {seed} round {round} {filters:?} {read:?}");
            let filter = filters.parsed();
            check(&Round { world: &world, read: &read, filters, filter, events: seen, lines, trace }, &mut random).await;
        }
    }
}

#[test]
fn statements_are_short_and_have_a_header() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/sql");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.lines().count() <= 80 && text.starts_with("-- "), "{}", path.display());
        assert!(text.lines().all(|line| line.len() <= 140), "{}", path.display());
    }
}

/// Start of the year 2026.
const NEW_YEAR_MS: i64 = 1_767_225_600_000;
const HOUR_MS: i64 = 3_600_000;

/// Returns one of a few times within two days of the new year.
fn random_time(random: &mut StdRng) -> i64 {
    NEW_YEAR_MS + random.random_range(-8..8) * 6 * HOUR_MS + random.random_range(0..2)
}
