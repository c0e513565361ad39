//! Versions of what both workspaces depend on.

use std::collections::BTreeSet;
use std::path::Path;

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
    let (product, lab) = (locked("Cargo.lock"), locked("lab/Cargo.lock"));
    let shared: BTreeSet<_> = product.iter().map(|(name, version)| (name, series(version))).collect();
    let differing: Vec<_> = lab
        .iter()
        .filter(|(name, version)| {
            shared.contains(&(name, series(version))) && !product.contains(&(name.clone(), version.clone()))
        })
        .collect();
    assert!(lab.len() > 300 && differing.is_empty(), "the product has another version of these: {differing:?}");
}
