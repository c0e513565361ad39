//! File locks that can be interrupted with Ctrl-C while waiting. The system releases them when the process ends.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// Opens the lock file. Creates it if missing and never truncates it.
pub(crate) fn open(path: &Path) -> Result<File> {
    File::options().create(true).append(true).open(path).with_context(|| format!("cannot write {}", path.display()))
}

/// Locks `file` exclusively.
pub(crate) fn exclusive(file: &File, give_up: impl Fn() -> bool) -> Result<()> {
    retry_until_locked(|| file.try_lock(), give_up)
}

/// Locks `file` together with other shared locks.
pub(crate) fn shared(file: &File, give_up: impl Fn() -> bool) -> Result<()> {
    retry_until_locked(|| file.try_lock_shared(), give_up)
}

fn retry_until_locked(attempt: impl Fn() -> Result<(), TryLockError>, give_up: impl Fn() -> bool) -> Result<()> {
    loop {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error).context("this file system doesn't support locks"),
            Err(TryLockError::WouldBlock) if give_up() => bail!("interrupted while waiting for another command to finish"),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}
