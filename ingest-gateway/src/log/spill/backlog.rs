//! Reading the spill in the order it was written, and forgetting what is on the log.

use super::folder::{Folder, Position};
use super::frame::{self, ParsedFrame};
use super::inventory::{Inventory, Pending, Segment};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much is read at once, unless one entry is larger.
const READ_BYTES: usize = 1024 * 1024;
/// How often the position is noted on disk.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Clone, Debug)]
pub(crate) struct Spilled {
    pub(crate) payload: Vec<u8>,
    pub(crate) begin: Position,
    pub(crate) end: Position,
}

/// What waits for the log; there is one reader.
pub(crate) struct Backlog {
    pub(super) folder: Arc<Folder>,
    pub(super) inventory: Arc<Inventory>,
    pub(super) at: Position,
    pub(super) file: Option<(u64, File)>,
    pub(super) noted: Instant,
}

impl Backlog {
    /// The next entries; none when everything durable has been read.
    pub(crate) fn read(&mut self) -> io::Result<Vec<Spilled>> {
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

    /// Everything before `position` is on the log: notes it, and deletes what is no longer needed.
    pub(crate) fn release(&mut self, position: Position, drained: Pending) -> io::Result<()> {
        self.inventory.drained(drained);
        self.retire(position, false)
    }

    /// Everything that was read is on the log: also gives up the segment that is written to, if nothing was added.
    pub(crate) fn release_all(&mut self) -> io::Result<()> {
        self.retire(self.at, true)
    }

    /// Whoever adds to it tells of it there.
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

    /// Keeps an entry that the log will never take where a person finds it.
    pub(crate) fn set_aside(&self, refused: &Spilled, reason: &str) -> io::Result<()> {
        let path = self.folder.set_aside("refused", refused.begin, &refused.payload)?;
        tracing::error!(path = %path.display(), "the log refuses a spilled record for good, it was set aside: {reason}");
        Ok(())
    }

    /// Counts what an earlier process left, for the gauges. Damage is found here too, and left to the reading.
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

    fn read_segment(&mut self, segment: Segment) -> io::Result<Vec<Spilled>> {
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
            read.push(Spilled { payload: payload.to_vec(), begin, end: self.at });
            rest = &rest[bytes..];
        }
        if read.is_empty() {
            self.pass_damage(segment)?;
        }
        Ok(read)
    }

    /// The bytes here are no entry: goes on at the next one, having set aside what lies between.
    fn pass_damage(&mut self, segment: Segment) -> io::Result<()> {
        let rest = self.bytes_at(segment.number, to_usize(segment.durable_bytes - self.at.offset))?;
        let next = frame::next_whole(&rest);
        let damaged = &rest[..next.unwrap_or(rest.len())];
        if next.is_none() && frame::is_torn(damaged) {
            tracing::warn!(
                bytes = damaged.len(),
                "cut off what an interrupted write left in the spill; it was never acknowledged"
            );
        } else {
            let path = self.folder.set_aside("damaged", self.at, damaged)?;
            tracing::error!(path = %path.display(), bytes = damaged.len(), "bytes of the spill are damaged and were set aside");
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
