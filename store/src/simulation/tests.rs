//! Random schedules, and a test that the simulator detects every broken rule.

use super::schedule::{Occurrences, SITUATIONS, run};
use super::{RULES, Rule, Rules};
use std::thread;

/// Maximum number of schedules until a broken rule must be detected.
const MAX_SCHEDULES: u64 = 20_000;

fn setting(name: &str) -> Option<u64> {
    std::env::var_os(name).map(|value| value.to_string_lossy().parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// `STORE_SCHEDULES` sets the number of schedules. To repeat a failure, set `TEST_SEED` to the seed that it printed.
#[test]
fn no_schedule_violates_the_guarantees() {
    let first = setting("TEST_SEED").unwrap_or_else(rand::random);
    let mut happened = Occurrences::new();
    for seed in (0..setting("STORE_SCHEDULES").unwrap_or(2_000)).map(|n| first.wrapping_add(n)) {
        let own = run(seed, Rules { broken: None }).unwrap_or_else(|violation| panic!("TEST_SEED={seed}: {violation}"));
        own.into_iter().for_each(|(what, count)| *happened.entry(what).or_default() += count);
    }
    println!("{happened:?}");
    let has_happened = |what: &&str| happened.get(*what).is_some_and(|count| *count > 0);
    assert!(setting("STORE_SCHEDULES").is_some() || SITUATIONS.iter().all(has_happened), "{happened:?}");
}

/// Returns the first schedule that detects the broken rule.
fn violation(rule: Rule) -> Option<u64> {
    (0..MAX_SCHEDULES).find(|seed| run(*seed, Rules { broken: Some(rule) }).is_err())
}

#[test]
fn detects_every_broken_rule() {
    let found: Vec<(Rule, Option<u64>)> = thread::scope(|scope| {
        let searches: Vec<_> = RULES.iter().map(|rule| (*rule, scope.spawn(move || violation(*rule)))).collect();
        searches.into_iter().map(|(rule, search)| (rule, search.join().unwrap())).collect()
    });
    println!("{found:?}");
    assert!(found.iter().all(|(_, schedule)| schedule.is_some()), "{found:?}");
}
