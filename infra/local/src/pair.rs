//! Two programs that tests need: as they are fetched, or the machine's own where they cannot be. It runs neither.

use std::path::PathBuf;

use anyhow::{Result, anyhow};

use crate::prerequisites::is_installed;
use crate::settings;

/// Finds both in the folder that `fetch` answers, which needs `client`; else both where the machine has its programs.
pub(crate) fn find(names: [&str; 2], client: &str, fetch: impl FnOnce() -> Result<PathBuf>) -> Result<[PathBuf; 2]> {
    let fetched = match is_installed(client) {
        true => fetch(),
        false => Err(anyhow!("missing: {}; install them with your system's package manager", names.join(" and "))),
    };
    let own = |name: &str| settings::search_path().into_iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    match (fetched, names.map(own)) {
        (Ok(place), _) => Ok(names.map(|name| place.join(name))),
        (Err(_), [Some(one), Some(other)]) => Ok([one, other]),
        (Err(missing), _) => Err(missing),
    }
}
