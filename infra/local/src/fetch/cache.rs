//! The folder of unpacked releases that all clones of one user share. A release is there whole or not at all: it is
//! made beside its place, listed, and renamed. What is in a release, this file does not know.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::interrupt::Interrupt;
use crate::workspace::create_open_folder;
use crate::{account, locks, settings};

/// Names and sizes of a release's files; written last, so a release that has it is whole.
const LISTING: &str = ".complete";

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    /// `~/.cache` for people; a place that other accounts can read for root, whose PostgreSQL runs as one.
    pub(crate) fn of_this_user() -> Result<Self> {
        let base = if account::is_root() { Some(PathBuf::from("/var/cache")) } else { settings::user_cache() };
        let base = base.context("no folder for downloads: set HOME or XDG_CACHE_HOME")?;
        Ok(Self { root: base.join("content-telemetry") })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn place(&self, release: &str) -> PathBuf {
        self.root.join(release)
    }

    /// Whether the release is there with every file at its size.
    pub(crate) fn has(&self, release: &str) -> bool {
        let place = self.place(release);
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

    /// Runs `make` in a fresh folder and moves what it left in `release/` to its place. Whoever comes second waits for
    /// the first and finds the work done.
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
        let place = self.place(release);
        if place.exists() {
            // damaged, or not listed; moved away first so that nobody ever sees half of it
            fs::rename(&place, draft.path().join("damaged")).context("cannot move a damaged release away")?;
        }
        fs::rename(&made, &place).with_context(|| format!("cannot put {} in place", place.display()))
    }

    /// Removes what killed runs left behind of this release, unless somebody is at work on it.
    pub(crate) fn tidy(&self, release: &str) {
        let Ok(lock) = locks::open(&self.root.join(format!("{release}.lock"))) else {
            return;
        };
        if lock.try_lock().is_err() {
            return;
        }
        let prefix = draft_prefix(release);
        for entry in fs::read_dir(&self.root).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                // a download that outlived its killed parent may still write there; the next run tries again
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// The bytes that all files below `folder` take on disk; Kafka's indexes are mostly holes.
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
