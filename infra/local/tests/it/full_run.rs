//! `lab/full.txt` contains everything that `cargo verify` skips.

use crate::documents_resolve::Tree;

const FULL: &str = "lab/full.txt";
/// Prefix of an ignored test's reason.
const LEFT_OUT: &str = "#[ignore = \"cargo verify --full: ";

/// Settings that select the first history when a run is repeated.
const OF_REPLAYS: [&str; 1] = ["MODEL_FIRST"];

/// Returns the name of the function after an attribute.
fn function(rest: &str) -> &str {
    rest.split_once("fn ").and_then(|(_, rest)| rest.split('(').next()).unwrap()
}

#[test]
fn full_run_contains_ignored_tests() {
    let tree = Tree::read();
    let commands = tree.text(FULL).unwrap().lines().filter_map(|line| line.split_once(" -- --ignored "));
    let filters: Vec<&str> = commands.flat_map(|(_, filters)| filters.split(' ')).collect();
    let left_out: Vec<&str> = tree.code().flat_map(|text| text.split(LEFT_OUT).skip(1)).map(function).collect();
    let missing: Vec<_> = left_out.iter().filter(|test| !filters.iter().any(|filter| test.contains(filter))).collect();
    assert!(!left_out.is_empty() && missing.is_empty(), "no command of {FULL} runs {missing:?}");
}

#[test]
fn full_run_sets_every_size() {
    let tree = Tree::read();
    let names = |text| str::split(text, "size(\"").skip(1).filter_map(|rest| rest.split_once('"').map(|(name, _)| name));
    let is_set = |name: &&str| OF_REPLAYS.contains(name) || tree.text(FULL).unwrap().contains(&format!("{name}="));
    let missing: Vec<&str> = tree.code().flat_map(names).filter(|name| !is_set(name)).collect();
    assert!(missing.is_empty(), "{FULL} does not set {missing:?}");
}
