//! Writes files with secrets in the state folder.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes or replaces a file atomically, readable only by its owner, and creates its folder.
pub(crate) fn write_atomically(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut draft = file.to_owned().into_os_string();
    draft.push(".new");
    let mut written = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    written.write_all(text.as_bytes())?;
    fs::rename(&draft, file)
}
