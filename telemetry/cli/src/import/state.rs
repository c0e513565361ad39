//! An import's progress, so that the next one resumes there.

use super::log_fingerprint::LogFingerprint;
use crate::failure::{Failure, file_error};
use crate::log_file::{FileIdentity, open_with_identity};
use crate::profile_file::write_private;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};

pub(super) struct StateFile {
    path: PathBuf,
    log: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct State {
    log: PathBuf,
    offset: u64,
    head: LogFingerprint,
}

impl StateFile {
    /// Returns the state file for a log and a destination. `place` identifies the destination.
    pub(super) fn for_log(folder: &Path, log: &Path, place: &str) -> Result<Self, Failure> {
        let log = log.canonicalize().map_err(|error| file_error(log, &error))?;
        let mut digest = Sha256::new();
        digest.update(place);
        digest.update([0]);
        digest.update(log.as_os_str().as_encoded_bytes());
        let name = HEXLOWER.encode(&digest.finalize()[..16]);
        Ok(Self { path: folder.join(format!("{name}.json")), log })
    }

    /// Returns the offset to resume at; 0 if nothing was accepted or the log is a different file now.
    pub(super) fn offset(&self) -> Result<u64, Failure> {
        let text = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            text => text.map_err(|error| file_error(&self.path, &error))?,
        };
        let broken =
            |_| Failure::Usage(format!("{}: invalid progress file; delete it to import from the start", self.path.display()));
        let state: State = serde_json::from_str(&text).map_err(broken)?;
        let (reader, _) = open_with_identity(&self.log).map_err(|error| file_error(&self.log, &error))?;
        let is_same =
            LogFingerprint::from_start_of(reader, state.offset).map_err(|error| file_error(&self.log, &error))? == state.head;
        Ok(if is_same { state.offset } else { 0 })
    }

    /// Saves the offset, unless the log's name refers to a different file by now.
    pub(super) fn save(&self, offset: u64, read: FileIdentity) -> Result<(), Failure> {
        let (reader, named) = match open_with_identity(&self.log) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened.map_err(|error| file_error(&self.log, &error))?,
        };
        if named != read {
            return Ok(());
        }
        let head = LogFingerprint::from_start_of(reader, offset).map_err(|error| file_error(&self.log, &error))?;
        let state = State { log: self.log.clone(), offset, head };
        let text = serde_json::to_string(&state).map_err(|error| Failure::Failed(error.to_string()))?;
        write_private(&self.path, text.as_bytes()).map_err(|error| file_error(&self.path, &error))
    }

    pub(super) fn forget(&self) -> Result<(), Failure> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file_error(&self.path, &error)),
            _ => Ok(()),
        }
    }
}
