//! What `cargo up` builds at once and then runs by itself has the same features both times: else all that differs, and all that
//! depends on it, is compiled twice.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The crates that these packages are made of, with their features.
fn crates(packages: &[&str]) -> BTreeSet<String> {
    let mut tree = Command::new("cargo");
    tree.args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none", "--format", "{p} {f}"]);
    tree.args(packages.iter().flat_map(|package| ["--package", *package]));
    let output = tree.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.trim_end_matches(" (*)").trim_end().to_owned()).collect()
}

#[test]
fn the_program_that_is_built_beside_the_service_has_the_service_compiled_once() {
    let (alone, beside) = (crates(&["all-in-one"]), crates(&["all-in-one", "telemetry"]));
    let differing: Vec<&String> = alone.difference(&beside).collect();
    assert!(alone.len() > 100 && differing.is_empty(), "name these features in Cargo.toml for all: {differing:?}");
}
