//! Programs that tests need: as they are fetched, or the machine's own where they cannot be. It runs none.

use std::path::PathBuf;

use anyhow::{Result, anyhow};

use crate::prerequisites::is_installed;
use crate::settings;

/// Finds all in the folder that `fetch` answers, which needs `client`; else all where the machine has its programs.
pub(crate) fn find<const N: usize>(
    names: [&str; N],
    client: &str,
    fetch: impl FnOnce() -> Result<PathBuf>,
) -> Result<[PathBuf; N]> {
    let fetched = match is_installed(client) {
        true => fetch(),
        false => Err(anyhow!("missing programs: {}. Install them with your system's package manager", names.join(" and "))),
    };
    let own = |name: &str| settings::search_path().into_iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    match fetched {
        Ok(place) => Ok(names.map(|name| place.join(name))),
        Err(missing) => {
            let own: Option<Vec<PathBuf>> = names.iter().map(|name| own(name)).collect();
            own.and_then(|own| own.try_into().ok()).ok_or(missing)
        }
    }
}
