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

/// The packages of a lock file with their versions.
fn locked(file: &str) -> BTreeSet<(String, String)> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap();
    let value = |package: &str, name: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(&format!("{name} = \"")))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let packages = text.split("[[package]]").skip(1);
    packages.filter_map(|package| Some((value(package, "name")?, value(package, "version")?))).collect()
}

/// What of a version cargo takes for one that can stand for another.
fn series(version: &str) -> String {
    let mut numbers = version.split(['.', '-', '+']);
    let (major, minor, patch) = (numbers.next().unwrap(), numbers.next().unwrap(), numbers.next().unwrap());
    match (major, minor) {
        ("0", "0") => format!("0.0.{patch}"),
        ("0", minor) => format!("0.{minor}"),
        (major, _) => major.to_owned(),
    }
}

#[test]
fn what_both_workspaces_depend_on_is_of_one_version() {
    let (product, lab) = (locked("Cargo.lock"), locked("infra/lab/Cargo.lock"));
    let shared: BTreeSet<_> = product.iter().map(|(name, version)| (name, series(version))).collect();
    let differing: Vec<_> = lab
        .iter()
        .filter(|(name, version)| {
            shared.contains(&(name, series(version))) && !product.contains(&(name.clone(), version.clone()))
        })
        .collect();
    assert!(lab.len() > 300 && differing.is_empty(), "the product has another version of these: {differing:?}");
}
