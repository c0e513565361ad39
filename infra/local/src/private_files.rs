//! Server files that contain data or passwords, readable only by the current account, whatever the umask.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

/// Creates a folder with its parents, and restricts access to the folder.
pub(crate) fn create_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::set_permissions(folder, Permissions::from_mode(0o700)).with_context(|| format!("cannot protect {}", folder.display()))
}

/// Writes or overwrites a file.
pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text.as_ref())
}

pub(crate) fn open_log(path: &Path) -> io::Result<File> {
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    log.set_permissions(Permissions::from_mode(0o600))?;
    Ok(log)
}

/// Returns a command that runs a program with umask 077. The shell replaces itself with the program.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask 077 && exec \"$0\" \"$@\""]).arg(program);
    command
}
