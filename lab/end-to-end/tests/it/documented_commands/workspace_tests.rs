//! The workspace's packages and the names of their tests, read from the sources.

use super::command_search::root;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Sources of a package.
struct Package {
    /// Each test's path: its modules and function.
    tests: Vec<String>,
    /// Text of all sources, including those of the test harness.
    text: String,
}

pub(super) struct Packages(BTreeMap<String, Package>);

impl Packages {
    pub(super) fn read() -> Self {
        let mut cargo = std::process::Command::new(env!("CARGO"));
        cargo.args(["metadata", "--offline", "--no-deps", "--format-version", "1"]);
        let ran = cargo.current_dir(root()).output().expect("failed to start cargo");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let metadata: Value = serde_json::from_slice(&ran.stdout).expect("the metadata is not JSON");
        let package = |package: &Value| {
            let manifest = Path::new(package["manifest_path"].as_str()?).parent()?.to_owned();
            Some((package["name"].as_str()?.to_owned(), Package::read(&manifest)))
        };
        Self(metadata["packages"].as_array().into_iter().flatten().filter_map(package).collect())
    }

    /// Returns whether any package has a test with this name. The empty name stands for `cargo test` itself, and always exists.
    pub(super) fn has_test(&self, name: &str) -> bool {
        let ending = format!("::{name}");
        name.is_empty() || self.0.values().any(|package| package.tests.iter().any(|test| test.ends_with(&ending)))
    }

    /// Returns an error if `cargo test` with these words would run no test or ignore a variable.
    pub(super) fn wrong_with_test(&self, package: &str, words: &[String], variables: &[String]) -> Option<String> {
        let Some(own) = self.0.get(package) else { return Some(format!("there is no package {package}")) };
        let mut filters = Vec::new();
        let mut rest = words.iter().skip(1);
        while let Some(word) = rest.next() {
            match word.as_str() {
                "-p" | "--package" | "--test" | "--features" => _ = rest.next(),
                word if word.starts_with('-') => {}
                filter => filters.push(filter),
            }
        }
        let idle = filters.into_iter().find(|filter| !own.tests.iter().any(|test| test.contains(filter)));
        let kit = &self.0["service-kit"].text;
        let unread = variables.iter().find(|name| !own.text.contains(*name) && !kit.contains(*name));
        idle.map(|filter| format!("no test of {package} is called {filter}"))
            .or_else(|| unread.map(|name| format!("nothing in {package} reads {name}")))
    }
}

impl Package {
    fn read(folder: &Path) -> Self {
        let mut files = Vec::new();
        for part in ["src", "tests"] {
            sources(&folder.join(part), &mut files);
        }
        let (mut tests, mut text) = (Vec::new(), String::new());
        for file in files {
            let source = std::fs::read_to_string(&file).expect("the source is not text");
            let modules = file.strip_prefix(folder).expect("the file is not in its folder").with_extension("");
            let modules = modules.to_string_lossy().replace('/', "::");
            tests.extend(tests_in(&source).into_iter().map(|test| format!("{modules}::{test}")));
            text.push_str(&source);
        }
        Self { tests, text }
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the functions with a test attribute.
fn tests_in(source: &str) -> Vec<&str> {
    let (mut found, mut is_marked) = (Vec::new(), false);
    for line in source.lines().map(str::trim_start) {
        is_marked |= line.starts_with("#[") && (line.contains("test]") || line.contains("test("));
        if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_marked && !line.starts_with("//")) {
            found.extend(rest.split('(').next());
            is_marked = false;
        }
    }
    found
}
