//! nginx for the test of what docker-compose.yml puts before the services: fetched from Debian's packages, or the machine's own
//! where apt does not have that version. It does not start it.

use std::path::PathBuf;

use anyhow::Result;

use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::{fetch, programs};

/// Finds it, and fetches it first if it is missing.
pub fn program() -> Result<PathBuf> {
    fetch_if_missing(&Progress::lines(), &Interrupt::default())
}

/// The same, said to somebody and interruptible.
pub(crate) fn fetch_if_missing(progress: &Progress, interrupt: &Interrupt) -> Result<PathBuf> {
    let fetched = || fetch::fetch_nginx(progress, interrupt).and_then(|()| fetch::nginx_place());
    programs::find(["nginx"], "apt-get", fetched).map(|[nginx]| nginx)
}
