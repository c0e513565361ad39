//! Prometheus and promtool for the tests of rules and alerts: fetched from Debian's packages, or the machine's own where
//! apt does not have that version. It starts neither.

use std::path::PathBuf;

use anyhow::Result;

use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::{fetch, programs};

#[derive(Clone, Debug)]
pub struct Programs {
    pub prometheus: PathBuf,
    /// The checker of rules and configuration.
    pub promtool: PathBuf,
}

/// Finds them, and fetches them first if they are missing.
pub fn programs() -> Result<Programs> {
    fetch_if_missing(&Progress::lines(), &Interrupt::default())
}

/// The same, said to somebody and interruptible.
pub(crate) fn fetch_if_missing(progress: &Progress, interrupt: &Interrupt) -> Result<Programs> {
    let fetched = || fetch::fetch_prometheus(progress, interrupt).and_then(|()| fetch::prometheus_place());
    let [prometheus, promtool] = programs::find(["prometheus", "promtool"], "apt-get", fetched)?;
    Ok(Programs { prometheus, promtool })
}
