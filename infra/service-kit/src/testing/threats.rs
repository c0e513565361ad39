//! Tables of which test stands for which threat, and the check that they are true.
//!
//! Must not be satisfied by a name: the test has to exist, to be a test, and to be run.

use std::path::Path;

/// A row of the threats, the file from the root of the workspace, and the test in it.
pub type ThreatTest = (&'static str, &'static str, &'static str);

/// Panics unless every test of the table exists and every row has one.
pub fn every_row_has_a_test(tests: &[ThreatTest], rows: impl IntoIterator<Item = String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (row, file, name) in tests {
        let text = std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let at = text.find(&format!("fn {name}(")).unwrap_or_else(|| panic!("{row}: {file} has no {name}"));
        let before = text[..at].trim_end().trim_end_matches("async").trim_end();
        let attribute = before.lines().last().unwrap_or_default().trim();
        assert!(attribute.starts_with("#[") && attribute.contains("test"), "{row}: {name} is no test: {attribute}");
        assert!(!before.ends_with("#[ignore]"), "{row}: {name} is not run");
    }
    for row in rows {
        assert!(tests.iter().any(|test| test.0 == row), "{row} has no test");
    }
}

/// The rows of one letter, from and to these numbers.
pub fn threat_rows(letter: char, numbers: std::ops::RangeInclusive<u32>) -> impl Iterator<Item = String> {
    numbers.map(move |number| format!("{letter}{number}"))
}
