//! Reads the spill in the order it was written, and deletes entries that are on the log.

use super::folder::{Folder, Position};
use super::frame::{self, ParsedFrame};
use super::inventory::{Inventory, Pending, Segment};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes per read, unless one entry is larger.
const READ_BYTES: usize = 1024 * 1024;
/// How often the position is written to disk.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub(crate) struct SpilledEntry {
    pub(crate) payload: Vec<u8>,
    pub(crate) begin: Position,
    pub(crate) end: Position,
}

/// Spilled entries that wait for the log. There is one reader.
pub(crate) struct Backlog {
    pub(super) folder: Arc<Folder>,
    pub(super) inventory: Arc<Inventory>,
    pub(super) at: Position,
    pub(super) file: Option<(u64, File)>,
    pub(super) noted: Instant,
}

impl Backlog {
    /// Returns the next entries, or an empty list once all durable entries are read.
    pub(crate) fn read(&mut self) -> io::Result<Vec<SpilledEntry>> {
        while let Some(segment) = self.inventory.segment_from(self.at.segment) {
            if segment.number > self.at.segment {
                self.at = Position { segment: segment.number, offset: 0 };
            }
            if self.at.offset < segment.durable_bytes {
                let read = self.read_segment(segment)?;
                if !read.is_empty() {
                    return Ok(read);
                }
            } else if segment.is_closed {
                self.at = Position { segment: segment.number + 1, offset: 0 };
            } else {
                break;
            }
        }
        Ok(Vec::new())
    }

    pub(crate) fn rewind(&mut self, to: Position) {
        self.at = to;
    }

    /// Records that everything before `position` is on the log, and deletes segments that are no longer needed.
    pub(crate) fn release(&mut self, position: Position, drained: Pending) -> io::Result<()> {
        self.inventory.drained(drained);
        self.retire(position, false)
    }

    /// Like [`Self::release`], for everything read so far. Also deletes the open segment if nothing was added to it.
    pub(crate) fn release_all(&mut self) -> io::Result<()> {
        self.retire(self.at, true)
    }

    /// Returns the shared inventory, which signals new entries.
    pub(crate) fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.inventory)
    }

    fn retire(&mut self, position: Position, is_idle: bool) -> io::Result<()> {
        let mut has_deleted = false;
        while let Some(number) = self.inventory.retire_first(position, is_idle) {
            self.folder.remove_segment(number)?;
            has_deleted = true;
        }
        if has_deleted || self.noted.elapsed() >= CHECKPOINT_INTERVAL {
            self.folder.note_checkpoint(position)?;
            self.noted = Instant::now();
        }
        Ok(())
    }

    /// Stores an entry that the log will never accept in a file for manual inspection.
    pub(crate) fn set_aside(&self, refused: &SpilledEntry, reason: &str) -> io::Result<()> {
        let path = self.folder.set_aside("refused", refused.begin, &refused.payload)?;
        tracing::error!(path = %path.display(), "the log rejected a spilled record permanently; moved it to a file: {reason}");
        Ok(())
    }

    /// Counts an earlier process's entries, for the gauges. Stops at damage, which the later read reports.
    pub(crate) fn count(&self, events_of: impl Fn(&[u8]) -> u64) -> io::Result<()> {
        let mut from = self.at;
        while let Some(segment) = self.inventory.segment_from(from.segment).filter(|segment| segment.is_closed) {
            let offset = if segment.number == from.segment { from.offset } else { 0 };
            let file = self.folder.open_segment(segment.number)?;
            let mut bytes = vec![0; to_usize(segment.durable_bytes.saturating_sub(offset))];
            file.read_exact_at(&mut bytes, offset)?;
            let mut found = Pending::default();
            let mut rest = bytes.as_slice();
            while let ParsedFrame::Whole { payload, bytes } = frame::decode(rest) {
                found.records += 1;
                found.events += events_of(payload);
                rest = &rest[bytes..];
            }
            self.inventory.add_pending(found);
            from = Position { segment: segment.number + 1, offset: 0 };
        }
        Ok(())
    }

    fn read_segment(&mut self, segment: Segment) -> io::Result<Vec<SpilledEntry>> {
        let left = to_usize(segment.durable_bytes - self.at.offset);
        let mut bytes = self.bytes_at(segment.number, left.min(READ_BYTES))?;
        if let ParsedFrame::Partial { bytes: needed } = frame::decode(&bytes)
            && needed > bytes.len()
            && bytes.len() < left
        {
            bytes = self.bytes_at(segment.number, needed.min(left))?;
        }
        let mut read = Vec::new();
        let mut rest = bytes.as_slice();
        while let ParsedFrame::Whole { payload, bytes } = frame::decode(rest) {
            let begin = self.at;
            self.at.offset += bytes as u64;
            read.push(SpilledEntry { payload: payload.to_vec(), begin, end: self.at });
            rest = &rest[bytes..];
        }
        if read.is_empty() {
            self.pass_damage(segment)?;
        }
        Ok(read)
    }

    /// Skips bytes that are not an entry, up to the next valid one, and stores them in a file.
    fn pass_damage(&mut self, segment: Segment) -> io::Result<()> {
        let rest = self.bytes_at(segment.number, to_usize(segment.durable_bytes - self.at.offset))?;
        let next = frame::next_whole(&rest);
        let damaged = &rest[..next.unwrap_or(rest.len())];
        if next.is_none() && frame::is_torn(damaged) {
            tracing::warn!(bytes = damaged.len(), "skipped an interrupted write in the spill; it was never acknowledged");
        } else {
            let path = self.folder.set_aside("damaged", self.at, damaged)?;
            tracing::error!(path = %path.display(), bytes = damaged.len(), "found damaged bytes in the spill; moved them to a file");
        }
        self.at.offset += damaged.len() as u64;
        Ok(())
    }

    fn bytes_at(&mut self, number: u64, length: usize) -> io::Result<Vec<u8>> {
        let file = match self.file.take() {
            Some((open, file)) if open == number => file,
            _ => self.folder.open_segment(number)?,
        };
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, self.at.offset)?;
        self.file = Some((number, file));
        Ok(bytes)
    }
}

fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
