//! Prometheus and promtool for the tests of rules and alerts: fetched from Debian's packages, or the machine's own where
//! apt does not have that version. It starts neither.

use std::path::PathBuf;

use anyhow::{Result, anyhow};

use crate::interrupt::Interrupt;
use crate::prerequisites::is_installed;
use crate::progress::Progress;
use crate::{fetch, settings};

/// The two programs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The server.
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
    let fetched = match is_installed("apt-get") {
        true => fetch::fetch_prometheus(progress, interrupt).and_then(|()| fetch::prometheus_place()),
        false => Err(anyhow!("missing: prometheus and promtool; install them with your system's package manager")),
    };
    let own = |name: &str| settings::search_path().into_iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    match (fetched, own("prometheus"), own("promtool")) {
        (Ok(place), _, _) => Ok(Programs { prometheus: place.join("prometheus"), promtool: place.join("promtool") }),
        (Err(_), Some(prometheus), Some(promtool)) => Ok(Programs { prometheus, promtool }),
        (Err(missing), _, _) => Err(missing),
    }
}
