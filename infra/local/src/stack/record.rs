//! `.local/stack.json`: the servers' processes, ports and passwords, readable only by the owner. The file is replaced atomically. An
//! unreadable file counts as empty, because running servers can be found by their data folder, and passwords are set again.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::password::Password;
use crate::process::Process;
use crate::server_kind::{ServerKind, ServerPorts};

/// State of the stack between runs.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Record {
    /// Whether `cargo local start` started the servers, so that they keep running when the last use ends.
    pub kept: bool,
    /// Every server that was ever started here.
    pub servers: BTreeMap<ServerKind, Entry>,
}

/// State of a server.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Entry {
    /// The current process; `None` after a regular stop.
    pub process: Option<Process>,
    /// Its ports, preferred at the next start.
    pub listen: ServerPorts,
    pub data: PathBuf,
    /// The administrator's password; `None` for Kafka, and for servers started by earlier builds.
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
        draft.into_temp_path().persist(file(state)).context("cannot move the stack's record into place")
    }

    /// Returns the server's entry if its process is running.
    #[must_use]
    pub fn running(&self, kind: ServerKind) -> Option<&Entry> {
        self.servers.get(&kind).filter(|entry| entry.process.is_some_and(Process::is_alive))
    }
}

fn file(state: &Path) -> PathBuf {
    state.join("stack.json")
}
