//! Files and directories that only the process's account can read, whatever its umask.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

/// Creates a directory and its missing parents. Restricts the access to an existing one.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)?;
    if fs::metadata(path)?.permissions().mode() & 0o777 == FOLDER {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(FOLDER))
}

/// Opens a file with `options`; a new file is readable only by its owner.
pub fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.mode(FILE).open(path)
}

pub fn create(path: &Path) -> io::Result<File> {
    let file = open(OpenOptions::new().write(true).create(true).truncate(true), path)?;
    file.set_permissions(Permissions::from_mode(FILE))?;
    Ok(file)
}
