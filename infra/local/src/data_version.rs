//! The version of the code that wrote the data in `.local`, identified by the statements that create the tables.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, Result};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// Folders with those statements.
const STATEMENTS: [&str; 2] = ["schemas/postgres", "store/clickhouse"];

/// Hint for a service that failed to start.
pub(crate) const HINT: &str = "If the error above is about a table or a column: another version of the code wrote the data in \
    .local. Delete that data with `cargo local wipe`, then run `cargo up` again.";

/// State of a clone's data before its service starts.
#[derive(Debug)]
pub(crate) struct DataVersion {
    state: PathBuf,
    current: String,
    is_foreign: bool,
    started: Option<SystemTime>,
}

impl DataVersion {
    /// Compares the version of the clone in `root` with the recorded one in `state`.
    pub(crate) fn check(root: &Path, state: &Path, has_data: bool) -> Result<Self> {
        let current = version(root).context("cannot read the statements that create the tables")?;
        let is_foreign = has_data && fs::read_to_string(note(state)).ok().as_ref() != Some(&current);
        Ok(Self { state: state.to_path_buf(), current, is_foreign, started: last_start(state) })
    }

    /// Records the version if the service has started since. Otherwise, returns whether another version may be the reason.
    pub(crate) fn may_have_caused_failure(&self) -> Result<bool> {
        if last_start(&self.state) == self.started {
            return Ok(self.is_foreign);
        }
        fs::write(note(&self.state), &self.current).context("cannot write into .local")?;
        Ok(false)
    }
}

fn note(state: &Path) -> PathBuf {
    state.join("data-version")
}

/// Returns when the service last started: it writes this file then.
fn last_start(state: &Path) -> Option<SystemTime> {
    fs::metadata(state.join("demo.env")).and_then(|metadata| metadata.modified()).ok()
}

fn version(root: &Path) -> std::io::Result<String> {
    let mut files = Vec::new();
    for folder in STATEMENTS {
        add_files(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        digest.update(fs::read(file)?);
    }
    Ok(HEXLOWER.encode(&digest.finalize()))
}

fn add_files(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { add_files(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
