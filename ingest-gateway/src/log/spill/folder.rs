//! The spill folder: its lock, its file names, and the position up to which it is drained.
//!
//! A file lock limits it to one process; the system releases the lock however the process ends. Only the process's account can read
//! the files, because they contain reported data.

use super::disk::{Disk, SegmentFile};
use crate::metrics;
use anyhow::Context;
use service_kit::private_files;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const CHECKPOINT: &str = "drained";
const SEGMENT: &str = "spill";

/// A position in the spill. Entries before it are on the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(super) segment: u64,
    pub(super) offset: u64,
}

pub(super) struct Folder {
    path: PathBuf,
    disk: Box<dyn Disk>,
    _lock: File,
}

impl Folder {
    pub(super) fn open(path: &Path, disk: Box<dyn Disk>) -> anyhow::Result<Self> {
        let setting = || format!("TELEMETRY_SPILL_DIR={}", path.display());
        private_files::create_folder(path)
            .with_context(|| format!("{}: failed to create the folder; use a writable path", setting()))?;
        let lock = private_files::create(&path.join(LOCK));
        let lock = lock.with_context(|| format!("{}: failed to write to the folder; use a writable path", setting()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), disk, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                anyhow::bail!("{}: another process uses this folder; use a separate folder for each gateway", setting())
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("{}: failed to lock the folder", setting())),
        }
    }

    #[cfg(test)]
    pub(super) fn lock_path(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    /// Returns number and size of each segment, oldest first.
    pub(super) fn segments(&self) -> io::Result<Vec<(u64, u64)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let path = entry.path();
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
            if let Some(number) = number.filter(|_| path.extension().is_some_and(|extension| extension == SEGMENT)) {
                found.push((number, entry.metadata()?.len()));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Creates a segment whose name survives a power failure.
    pub(super) fn create_segment(&self, number: u64) -> io::Result<Box<dyn SegmentFile>> {
        let segment = self.disk.create(&self.segment(number))?;
        self.sync()?;
        Ok(segment)
    }

    pub(super) fn open_segment(&self, number: u64) -> io::Result<File> {
        File::open(self.segment(number))
    }

    pub(super) fn remove_segment(&self, number: u64) -> io::Result<()> {
        fs::remove_file(self.segment(number))
    }

    /// Stores bytes for manual inspection: `damaged` bytes that are not an entry, or a `refused` entry that the log will never accept.
    pub(super) fn set_aside(&self, kind: &'static str, from: Position, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.path.join(format!("{:020}-{}.{kind}", from.segment, from.offset));
        let mut file = private_files::create(&path)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        self.sync()?;
        metrics::spill_set_aside(kind);
        Ok(path)
    }

    /// Returns the last position written, or the beginning. Draining entries again is harmless.
    pub(super) fn checkpoint(&self) -> Position {
        let text = fs::read_to_string(self.path.join(CHECKPOINT)).unwrap_or_default();
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(segment), Some(offset)) => Position { segment, offset },
            _ => Position::default(),
        }
    }

    /// Writes a position without an fsync. If it is lost, some entries are drained again.
    pub(super) fn note_checkpoint(&self, position: Position) -> io::Result<()> {
        let new = self.path.join(format!("{CHECKPOINT}.new"));
        writeln!(private_files::create(&new)?, "{} {}", position.segment, position.offset)?;
        fs::rename(new, self.path.join(CHECKPOINT))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync_folder(&self.path)
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}.{SEGMENT}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::spill::disk::RealDisk;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a19_spill_files_are_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("spill");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let folder = Folder::open(&path, Box::new(RealDisk)).unwrap();
        folder.create_segment(1).unwrap().write_all(b"x").unwrap();
        folder.set_aside("damaged", Position::default(), b"x").unwrap();
        folder.note_checkpoint(Position::default()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700, "also for a folder that already existed");
        let files: Vec<PathBuf> = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(files.len(), 4, "{files:?}");
        for file in files {
            assert_eq!(mode(&file), 0o600, "{}", file.display());
        }
    }
}
