//! Files and folders that only the account of the process can read, whatever its umask is.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

/// Creates a folder and its missing parents, and takes the rights of others away from one that exists.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)?;
    if fs::metadata(path)?.permissions().mode() & 0o777 == FOLDER {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(FOLDER))
}

/// Opens a file as `options` say; if it is created, only for its owner.
pub fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.mode(FILE).open(path)
}

/// Creates a file, or empties one that exists.
pub fn create(path: &Path) -> io::Result<File> {
    let file = open(OpenOptions::new().write(true).create(true).truncate(true), path)?;
    file.set_permissions(Permissions::from_mode(FILE))?;
    Ok(file)
}
