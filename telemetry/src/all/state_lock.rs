//! Locks the state folder, so that only one process writes to it. The lock is taken before anything is written, because a second process
//! would replace the first one's addresses and keys.

use anyhow::Context;
use std::fs::{self, File, TryLockError};
use std::path::Path;

const FILE: &str = "telemetry.lock";

/// Released when the process ends, even by a crash.
#[derive(Debug)]
pub(crate) struct StateLock(#[expect(dead_code, reason = "the lock lasts while the file is open")] File);

/// Locks the folder and creates it if it is missing. Fails if another process has locked it.
pub(crate) fn lock(folder: &Path) -> anyhow::Result<StateLock> {
    let place = folder.display();
    let opened = fs::create_dir_all(folder).and_then(|()| {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).open(folder.join(FILE))
    });
    let file = opened.with_context(|| format!("TELEMETRY_STATE_DIR={place}: cannot write to this folder"))?;
    match file.try_lock() {
        Ok(()) => Ok(StateLock(file)),
        Err(TryLockError::WouldBlock) => {
            anyhow::bail!(
                "TELEMETRY_STATE_DIR={place}: the service is already running with this folder; stop it, or set another folder"
            )
        }
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("TELEMETRY_STATE_DIR={place}: cannot lock this folder"))
        }
    }
}
