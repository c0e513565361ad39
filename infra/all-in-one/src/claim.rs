//! The claim of a state folder: one all-in-one at a time writes there.
//!
//! Must be made before anything is written: a second one would put its addresses and keys in place of the first one's.

use anyhow::Context;
use std::fs::{self, File, TryLockError};
use std::path::Path;

const FILE: &str = "all-in-one.lock";

/// Ends with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Claim(#[expect(dead_code, reason = "the lock is as long as the file is open")] File);

/// Claims the folder, which is made if it is missing, or says who has it.
pub(crate) fn claim(folder: &Path) -> anyhow::Result<Claim> {
    let place = folder.display();
    let opened = fs::create_dir_all(folder).and_then(|()| {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).open(folder.join(FILE))
    });
    let file = opened.with_context(|| format!("TELEMETRY_STATE_DIR={place}: cannot write to this folder"))?;
    match file.try_lock() {
        Ok(()) => Ok(Claim(file)),
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
