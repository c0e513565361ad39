//! Reads the `demo.env` of `telemetry all`, which contains a running stack's addresses.

use std::collections::BTreeMap;
use std::path::Path;

/// Reads shell assignments. Returns an empty map if the file doesn't exist.
pub(super) fn read(file: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let assignment = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('\'').replace(r"'\''", "'")))
    };
    text.lines().filter_map(assignment).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn parses_environment_assignments() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("demo.env");
        assert!(super::read(&file).is_empty());
        std::fs::write(&file, "BASE_URL='http://127.0.0.1:8080'\nODD='it'\\''s'\n").unwrap();
        assert_eq!(super::read(&file)["BASE_URL"], "http://127.0.0.1:8080");
        assert_eq!(super::read(&file)["ODD"], "it's");
    }
}
