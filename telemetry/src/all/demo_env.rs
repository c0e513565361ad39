//! `.local/demo.env`: the addresses and secrets of the demo tenant as shell assignments. Contains keys, so only the owner can read
//! it.

use crate::all::private_file;
use anyhow::Context;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const FILE: &str = "demo.env";

/// Assignments in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub(crate) struct DemoEnv(Vec<(&'static str, String)>);

impl DemoEnv {
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.push((name, value.into()));
    }

    /// Returns a value, or an empty string if it is not set.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// Replaces the file atomically, so readers never see a partial file.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let text: String = self.0.iter().map(|(name, value)| format!("{name}='{}'\n", value.replace('\'', r"'\''"))).collect();
        private_file::write_atomically(&folder.join(FILE), &text)
            .with_context(|| format!("TELEMETRY_STATE_DIR={}: cannot write demo.env", folder.display()))
    }
}

/// Returns the previous run's assignments, or an empty map if there was none.
pub(crate) fn read(folder: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(folder.join(FILE)).unwrap_or_default();
    let assignment = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('\'').replace(r"'\''", "'")))
    };
    text.lines().filter_map(assignment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_file_parses() {
        let folder = tempfile::tempdir().unwrap();
        let mut env = DemoEnv::default();
        env.set("BASE_URL", "http://127.0.0.1:8080");
        env.set("ODD", "it's");
        env.write(folder.path()).unwrap();
        let read = read(folder.path());
        assert_eq!(read["BASE_URL"], "http://127.0.0.1:8080");
        assert_eq!(read["ODD"], "it's");
    }
}
