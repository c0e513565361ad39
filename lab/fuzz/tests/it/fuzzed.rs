//! S13: runs each target on its seeds and on a fixed number of mutated inputs.

use fuzz::mutate::Inputs;
use fuzz::{TARGETS, Target};
use service_kit::testing::random_seed;

/// Runs a target. At least one in `one_in` inputs must be accepted; otherwise the inputs no longer reach the code under test.
fn enter(name: &str, cases: usize, one_in: usize) {
    let target: &Target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let mut inputs = Inputs::for_target(target, random_seed()).unwrap();
    for seed in inputs.seeds() {
        target.try_run(seed).unwrap_or_else(|law| panic!("a seed of {name} fails: {law}\n{}", seed.escape_ascii()));
    }
    let mut taken = 0;
    for case in 0..cases {
        let input = inputs.next_input();
        let outcome = target.try_run(&input);
        taken +=
            usize::from(outcome.unwrap_or_else(|law| panic!("input {case} of {name} fails: {law}\n{}", input.escape_ascii())));
    }
    println!("{name}: {taken} of {cases} inputs are accepted");
    assert!(taken * one_in >= cases, "only {taken} of {cases} inputs of {name} are accepted");
}

#[test]
fn s13_fuzz_addresses() {
    enter("address", 40_000, 20);
}

#[test]
fn s13_fuzz_logs() {
    enter("drain", 2_000, 20);
}

#[test]
fn s13_fuzz_bodies() {
    enter("event", 4_000, 20);
}

#[test]
fn s13_fuzz_sites() {
    enter("site", 20_000, 20);
}

#[test]
fn s13_fuzz_parameters() {
    enter("parameters", 40_000, 50);
}

#[test]
fn s13_fuzz_tokens() {
    enter("token", 40_000, 200);
}

#[test]
fn every_target_has_a_libfuzzer_entry_point() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    for target in TARGETS {
        let text = std::fs::read_to_string(folder.join(format!("{}.rs", target.name))).unwrap();
        assert!(text.contains(&format!("fuzz::{}::run(input)", target.name)), "{}", target.name);
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), TARGETS.len());
}
