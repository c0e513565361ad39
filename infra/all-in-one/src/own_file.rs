//! Files of the state folder that hold secrets.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a file in one step, in the place of one that is there; makes its folder.
pub(crate) fn replace(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut draft = file.to_owned().into_os_string();
    draft.push(".new");
    let mut written = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    written.write_all(text.as_bytes())?;
    fs::rename(&draft, file)
}
