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
        if let Some(fault) = fault_of(&text, name) {
            panic!("{row}: {name} of {file} {fault}");
        }
    }
    for row in rows {
        assert!(tests.iter().any(|test| test.0 == row), "{row} has no test");
    }
}

/// Why a function of a source file stands for no threat, if it does not.
fn fault_of(text: &str, name: &str) -> Option<&'static str> {
    let Some(above) = above_declaration(text, name) else { return Some("is not there") };
    let attributes: Vec<&str> = above.lines().rev().map(str::trim).take_while(|line| line.starts_with(['#', '/'])).collect();
    let has = |beginning: &str| attributes.iter().any(|line| line.starts_with(beginning));
    if !(has("#[test]") || has("#[tokio::test]") || has("#[tokio::test(")) {
        return Some("is no test");
    }
    (has("#[ignore") || has("#[cfg")).then_some("is not run")
}

/// What stands above the line that declares a function; a comment that names it does not.
fn above_declaration<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.match_indices(&format!("fn {name}(")).find_map(|(at, _)| {
        let begin = text[..at].rfind('\n').map_or(0, |line_feed| line_feed + 1);
        matches!(text[begin..at].trim(), "" | "async").then(|| &text[..begin])
    })
}

/// The rows of `docs/threats.md` whose ids have these letters, from and to these numbers.
pub fn threat_rows(letters: &str, numbers: std::ops::RangeInclusive<u32>) -> impl Iterator<Item = String> {
    numbers.map(move |number| format!("{letters}{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_not_run_stands_for_no_threat_wherever_and_however_that_is_said() {
        for (above, expected) in [
            ("#[test]", None),
            ("#[tokio::test]", None),
            ("#[tokio::test(flavor = \"multi_thread\")]", None),
            ("/// What it holds.\n#[test]", None),
            ("#[test]\n/// What it holds.", None),
            ("#[expect(clippy::unwrap_used, reason = \"a test\")]\n#[test]", None),
            ("", Some("is no test")),
            ("// #[test]", Some("is no test")),
            ("#[test]\nfn other() {}\n", Some("is no test")),
            ("#[test_case]", Some("is no test")),
            ("#[ignore = \"a test\"]", Some("is no test")),
            ("#[ignore]\n#[test]", Some("is not run")),
            ("#[test]\n#[ignore]", Some("is not run")),
            ("#[ignore = \"a test\"]\n#[test]", Some("is not run")),
            ("#[test]\n#[ignore = \"a test\"]", Some("is not run")),
            ("#[ignore]\n/// What it holds.\n#[test]", Some("is not run")),
            ("#[cfg(any())]\n#[test]", Some("is not run")),
            ("#[cfg_attr(all(), ignore)]\n#[tokio::test]", Some("is not run")),
        ] {
            for declaration in ["fn it_holds() {}", "    async fn it_holds() {}"] {
                let text = format!("// fn it_holds() is below\n\n{above}\n{declaration}\n");
                assert_eq!(fault_of(&text, "it_holds"), expected, "{text}");
            }
        }
        assert_eq!(fault_of("#[test]\n// fn it_holds() {}\n", "it_holds"), Some("is not there"));
        assert_eq!(fault_of("#[test]\nfn it_holds_more() {}\n", "it_holds"), Some("is not there"));
    }
}
