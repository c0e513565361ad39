//! Random schedules, and proof that the simulator finds what it looks for.

use super::schedule::{Happened, run};
use super::{PROPOSED, Rules};

/// A broken rule must be noticed within so many schedules.
const MOST_SCHEDULES: u64 = 20_000;

fn setting(name: &str) -> Option<u64> {
    std::env::var_os(name).map(|value| value.to_string_lossy().parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// `STORE_SCHEDULES` is the number of schedules. `TEST_SEED` with the seed that a failure prints runs that one first.
#[test]
fn no_schedule_violates_the_promises() {
    let first = setting("TEST_SEED").unwrap_or_else(rand::random);
    let mut happened = Happened::default();
    for seed in (0..setting("STORE_SCHEDULES").unwrap_or(2_000)).map(|n| first.wrapping_add(n)) {
        match run(seed, PROPOSED) {
            Ok(own) => happened += own,
            Err(violation) => panic!("TEST_SEED={seed}: {violation}"),
        }
    }
    println!("{happened:?}");
    if setting("STORE_SCHEDULES").is_none() {
        let Happened { takeovers, fenced_inserts, unknown_outcomes, .. } = happened;
        let Happened { interrupted_blocks, moves_between_partitions, server_kills, restores, drops, .. } = happened;
        let counts = [takeovers, fenced_inserts, unknown_outcomes, interrupted_blocks, moves_between_partitions];
        let counts = counts.into_iter().chain([server_kills, restores, drops]);
        assert!(counts.into_iter().all(|count| count > 0), "{happened:?}");
    }
}

fn assert_finds_a_violation(rules: Rules) {
    let violation = (0..MOST_SCHEDULES).find_map(|seed| Some((seed, run(seed, rules).err()?)));
    let (seed, violation) = violation.expect("a violation");
    println!("found by schedule {seed}: {violation}");
}

#[test]
fn inserts_without_a_fence_are_found() {
    assert_finds_a_violation(Rules { has_fence: false, ..PROPOSED });
}

#[test]
fn inserts_without_a_common_query_id_are_found() {
    assert_finds_a_violation(Rules { inserts_have_one_query_id: false, ..PROPOSED });
}

#[test]
fn claims_without_a_common_query_id_are_found() {
    assert_finds_a_violation(Rules { claims_exclude_each_other: false, ..PROPOSED });
}

#[test]
fn an_epoch_below_stored_versions_is_found() {
    assert_finds_a_violation(Rules { exceeds_stored_versions: false, ..PROPOSED });
}

#[test]
fn a_backup_that_copies_progress_last_is_found() {
    assert_finds_a_violation(Rules { backs_up_progress_first: false, ..PROPOSED });
}

#[test]
fn events_written_before_reports_are_found() {
    assert_finds_a_violation(Rules { writes_reports_first: false, ..PROPOSED });
}

#[test]
fn offsets_taken_from_kafka_are_found() {
    assert_finds_a_violation(Rules { starts_at_progress: false, ..PROPOSED });
}

#[test]
fn an_incomplete_index_is_found() {
    assert_finds_a_violation(Rules { waits_for_index: false, ..PROPOSED });
}

#[test]
fn moves_in_one_statement_with_their_effects_are_found() {
    assert_finds_a_violation(Rules { writes_moves_first: false, ..PROPOSED });
}

#[test]
fn a_first_block_that_is_cut_freely_is_found() {
    assert_finds_a_violation(Rules { covers_interrupted: false, ..PROPOSED });
}

#[test]
fn first_blocks_that_divide_groups_are_found() {
    assert_finds_a_violation(Rules { keeps_groups_whole: false, ..PROPOSED });
}

#[test]
fn heartbeats_numbered_after_a_block_are_found() {
    assert_finds_a_violation(Rules { numbers_progress_last: false, ..PROPOSED });
}

#[test]
fn ignored_reports_of_an_interrupted_block_are_found() {
    assert_finds_a_violation(Rules { knows_interrupted: false, ..PROPOSED });
}

#[test]
fn a_heartbeat_that_counts_as_a_block_is_found() {
    assert_finds_a_violation(Rules { heartbeats_settle_nothing: false, ..PROPOSED });
}

#[test]
fn a_recomputed_repeat_is_found() {
    assert_finds_a_violation(Rules { repeats_same_bytes: false, ..PROPOSED });
}

#[test]
fn removed_tombstones_are_found() {
    assert_finds_a_violation(Rules { keeps_tombstones: false, ..PROPOSED });
}

#[test]
fn events_that_a_drop_divides_are_found() {
    assert_finds_a_violation(Rules { deletes_divided: false, ..PROPOSED });
}

#[test]
fn months_deleted_between_two_blocks_are_found() {
    assert_finds_a_violation(Rules { deletes_before_it_reads: false, ..PROPOSED });
}

#[test]
fn deleted_rows_of_moved_reports_are_found() {
    assert_finds_a_violation(Rules { keeps_moved_reports: false, ..PROPOSED });
}

#[test]
fn reports_stored_in_expired_months_are_found() {
    assert_finds_a_violation(Rules { skips_expired: false, ..PROPOSED });
}
