//! The cache of unpacked releases, which all clones of a user share. A release is complete or absent: it is built in a temporary
//! folder, listed, and renamed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::interrupt::Interrupt;
use crate::workspace::create_open_folder;
use crate::{environment, locks, process_account};

/// Names and sizes of a release's files. Written last, so a release with this file is complete.
const LISTING: &str = ".complete";

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Returns the cache below `~/.cache`. For root, it is in a folder that other accounts can read, because PostgreSQL runs as
    /// another account.
    pub(crate) fn for_this_user() -> Result<Self> {
        let base = if process_account::is_root() { Some(PathBuf::from("/var/cache")) } else { environment::user_cache() };
        let base = base.context("no folder for downloads: set HOME or XDG_CACHE_HOME")?;
        Ok(Self { root: base.join("content-telemetry") })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn path(&self, release: &str) -> PathBuf {
        self.root.join(release)
    }

    /// Returns whether the release exists and every file has the right size.
    pub(crate) fn has(&self, release: &str) -> bool {
        let place = self.path(release);
        let Ok(listing) = fs::read_to_string(place.join(LISTING)) else {
            return false;
        };
        listing.lines().all(|line| {
            let Some((size, name)) = line.split_once(' ') else {
                return false;
            };
            fs::symlink_metadata(place.join(name)).is_ok_and(|file| size.parse() == Ok(file.len()))
        })
    }

    /// Runs `make` in an empty folder and moves its `release/` into the cache. Concurrent callers wait for the first one and use
    /// its result.
    pub(crate) fn fill(&self, release: &str, interrupt: &Interrupt, make: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        create_open_folder(&self.root)?;
        let lock = locks::open(&self.root.join(format!("{release}.lock")))?;
        locks::exclusive(&lock, || interrupt.is_requested())?;
        if self.has(release) {
            return Ok(());
        }
        let prefix = draft_prefix(release);
        let draft = tempfile::Builder::new().prefix(&prefix).tempdir_in(&self.root).context("cannot write into the cache")?;
        let made = draft.path().join("release");
        create_open_folder(&made)?;
        make(draft.path())?;
        fs::write(made.join(LISTING), listing(&made)?).context("cannot write into the cache")?;
        fs::set_permissions(&made, fs::Permissions::from_mode(0o755))?;
        let place = self.path(release);
        if place.exists() {
            // Damaged or unlisted. Moved away first, so that other processes never see a partial release.
            fs::rename(&place, draft.path().join("damaged")).context("cannot move a damaged release")?;
        }
        fs::rename(&made, &place).with_context(|| format!("cannot move {} into place", place.display()))
    }

    /// Removes leftovers of killed runs for this release, unless another process is working on it.
    pub(crate) fn remove_leftovers(&self, release: &str) {
        let Ok(lock) = locks::open(&self.root.join(format!("{release}.lock"))) else {
            return;
        };
        if lock.try_lock().is_err() {
            return;
        }
        let prefix = draft_prefix(release);
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                // A download that outlived its killed parent may still write there. The next run retries.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Returns the disk usage of all files below `folder` in bytes. Kafka's indexes are sparse files.
pub(crate) fn size_bytes(folder: &Path) -> u64 {
    files(folder).iter().filter_map(|file| fs::symlink_metadata(file).ok()).map(|file| file.blocks() * 512).sum()
}

fn draft_prefix(release: &str) -> String {
    format!(".{release}.")
}

fn listing(folder: &Path) -> Result<String> {
    let mut lines = String::new();
    for file in files(folder) {
        let size = fs::symlink_metadata(&file)?.len();
        lines += &format!("{size} {}\n", file.strip_prefix(folder)?.display());
    }
    Ok(lines)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}
