//! The folder of a spill: its lock, the names of its files, and the position up to which it was drained.
//!
//! Must not be shared: one process at a time, held by a lock that the system releases however the process ends.

use super::disk::{Disk, Segment};
use anyhow::Context;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const CHECKPOINT: &str = "drained";
const SEGMENT: &str = "spill";
const DAMAGED: &str = "damaged";
const REFUSED: &str = "refused";

/// A place in the spill: entries before it are on the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(super) segment: u64,
    pub(super) offset: u64,
}

/// A folder that is ours.
pub(super) struct Folder {
    path: PathBuf,
    disk: Box<dyn Disk>,
    _lock: File,
}

impl Folder {
    /// Creates the folder where it is missing and takes its lock.
    pub(super) fn open(path: &Path, disk: Box<dyn Disk>) -> anyhow::Result<Self> {
        let setting = || format!("TELEMETRY_SPILL_DIR={}", path.display());
        fs::create_dir_all(path)
            .with_context(|| format!("{}: cannot be created; name a folder that can be written", setting()))?;
        let lock = File::create(path.join(LOCK));
        let lock = lock.with_context(|| format!("{}: cannot be written; name a folder that can", setting()))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), disk, _lock: lock }),
            Err(TryLockError::WouldBlock) => {
                anyhow::bail!("{}: another process spills there; give each gateway a folder of its own", setting())
            }
            Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("{}: cannot be locked", setting())),
        }
    }

    #[cfg(test)]
    pub(super) fn lock_path(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    /// Numbers and sizes of the segments, oldest first.
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

    /// A new segment to append to, findable after a power failure.
    pub(super) fn create_segment(&self, number: u64) -> io::Result<Box<dyn Segment>> {
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

    /// Keeps bytes of a segment that are no entry, for a person to look at.
    pub(super) fn set_aside_damaged(&self, from: Position, bytes: &[u8]) -> io::Result<PathBuf> {
        self.keep(from, DAMAGED, bytes)
    }

    /// Keeps an entry that the log will never take.
    pub(super) fn set_aside_refused(&self, from: Position, bytes: &[u8]) -> io::Result<PathBuf> {
        self.keep(from, REFUSED, bytes)
    }

    fn keep(&self, from: Position, kind: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.path.join(format!("{:020}-{}.{kind}", from.segment, from.offset));
        fs::write(&path, bytes)?;
        File::open(&path)?.sync_all()?;
        self.sync()?;
        Ok(path)
    }

    /// The position noted last; the beginning when there is none. Draining from before it again is harmless.
    pub(super) fn checkpoint(&self) -> Position {
        let text = fs::read_to_string(self.path.join(CHECKPOINT)).unwrap_or_default();
        let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(segment), Some(offset)) => Position { segment, offset },
            _ => Position::default(),
        }
    }

    /// Notes a position. It is not synced: losing it only drains more again.
    pub(super) fn note_checkpoint(&self, position: Position) -> io::Result<()> {
        let new = self.path.join(format!("{CHECKPOINT}.new"));
        fs::write(&new, format!("{} {}\n", position.segment, position.offset))?;
        fs::rename(new, self.path.join(CHECKPOINT))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync_folder(&self.path)
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:020}.{SEGMENT}"))
    }
}
