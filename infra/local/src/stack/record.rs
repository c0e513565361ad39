//! `.local/stack.json`: which servers run, as which process, on which ports, with which password; for its owner's eyes only.
//! Written whole or not at all; a file that cannot be read counts as empty, because strays are found by their data folder
//! anyway, and passwords are set anew.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::kind::{Kind, Listen};
use crate::password::Password;
use crate::process::Process;

/// What is known about the stack between runs.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Record {
    /// Started by `cargo local start`: stays when the last user leaves.
    pub kept: bool,
    /// Every server that was ever started here.
    pub servers: BTreeMap<Kind, Entry>,
}

/// What is known about one server.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Entry {
    /// The run that serves now; none after an orderly stop.
    pub process: Option<Process>,
    /// Its ports, preferred again the next time.
    pub listen: Listen,
    pub data: PathBuf,
    /// What it asks its administrator for; none of Kafka, and of what an earlier build has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Password>,
}

impl Record {
    /// Reads the record in this `.local` folder.
    #[must_use]
    pub fn load(state: &Path) -> Self {
        fs::read(file(state)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// Replaces the record in this `.local` folder.
    pub fn save(&self, state: &Path) -> Result<()> {
        let mut draft = tempfile::NamedTempFile::new_in(state).context("cannot write into .local")?;
        serde_json::to_writer_pretty(&mut draft, self).context("cannot write the stack's record")?;
        draft.write_all(b"\n")?;
        draft.into_temp_path().persist(file(state)).context("cannot put the stack's record in place")
    }

    /// The server's entry, if the process in it still runs.
    #[must_use]
    pub fn running(&self, kind: Kind) -> Option<&Entry> {
        self.servers.get(&kind).filter(|entry| entry.process.is_some_and(Process::is_alive))
    }
}

fn file(state: &Path) -> PathBuf {
    state.join("stack.json")
}
