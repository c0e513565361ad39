//! The spill's writer thread. Writes all waiting entries together, with one fsync.

use super::SpillError;
use super::disk::SegmentFile;
use super::folder::Folder;
use super::inventory::{Inventory, Pending};
use super::usage_by_organization::UsageByOrganization;
use crate::metrics;
use schemas::ids::OrgId;
use service_kit::crash_point;
use service_kit::log_throttle::LogThrottle;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;
use tokio::sync::oneshot;

/// Maximum bytes per fsync, not counting the entry that crosses the limit.
const MAX_BATCH_BYTES: usize = 4 * 1024 * 1024;

pub(super) struct Entry {
    pub(super) org: OrgId,
    /// The encoded frame.
    pub(super) bytes: Vec<u8>,
    pub(super) events: u64,
    pub(super) answer: oneshot::Sender<Result<(), SpillError>>,
}

struct Writer {
    folder: Arc<Folder>,
    inventory: Arc<Inventory>,
    segment_bytes: u64,
    active: Option<Active>,
    complaint: LogThrottle,
}

struct Active {
    number: u64,
    file: Box<dyn SegmentFile>,
    /// End of the fsynced bytes.
    durable_bytes: u64,
    end: End,
    /// An fsync failed, so the state of the file's pages is unknown, and nothing more is written to the file.
    is_spent: bool,
}

/// The bytes after the durable part of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// No bytes.
    Clean,
    /// An interrupted write, to be truncated before the next write.
    Torn,
    /// A failed fsync, also to be truncated.
    Unknown,
}

/// Starts the thread. It ends when every sender is dropped.
pub(super) fn start(folder: Arc<Folder>, inventory: Arc<Inventory>, segment_bytes: u64) -> io::Result<Sender<Entry>> {
    let (sender, entries) = channel();
    let writer = Writer { folder, inventory, segment_bytes, active: None, complaint: LogThrottle::default() };
    std::thread::Builder::new().name("spill".to_owned()).spawn(move || writer.run(&entries))?;
    Ok(sender)
}

impl Writer {
    fn run(mut self, entries: &Receiver<Entry>) {
        while let Ok(first) = entries.recv() {
            let mut bytes = first.bytes;
            let mut count = Pending { records: 1, events: first.events };
            let mut shares = UsageByOrganization::default();
            shares.add(first.org, bytes.len() as u64);
            let mut waiting = vec![first.answer];
            while bytes.len() < MAX_BATCH_BYTES
                && let Ok(next) = entries.try_recv()
            {
                bytes.extend_from_slice(&next.bytes);
                shares.add(next.org, next.bytes.len() as u64);
                count.records += 1;
                count.events += next.events;
                waiting.push(next.answer);
            }
            let answer = self.commit(&bytes, count, &shares);
            for waiting in waiting {
                // Without a receiver, the caller is gone, but the durable entry stays.
                let _ = waiting.send(answer);
            }
        }
    }

    fn commit(&mut self, bytes: &[u8], count: Pending, shares: &UsageByOrganization) -> Result<(), SpillError> {
        let length = bytes.len() as u64;
        let started = Instant::now();
        match self.make_durable(bytes) {
            Ok(()) => {
                metrics::spilled(count.records, started.elapsed());
                self.inventory.end_write(length, count, shares);
                Ok(())
            }
            Err(error) => {
                metrics::spill_failed();
                if self.complaint.is_due() {
                    tracing::error!("failed to write to the spill: {error}");
                }
                self.abandon();
                self.inventory.end_write(0, Pending::default(), &UsageByOrganization::default());
                self.inventory.give_back(length, shares);
                Err(SpillError::Disk)
            }
        }
    }

    fn make_durable(&mut self, bytes: &[u8]) -> io::Result<()> {
        let active = self.writable_segment()?;
        active.end = End::Torn;
        crash_point::reached_halfway("spill_half_written", || drop(active.file.write_all(&bytes[..bytes.len() / 2])));
        active.file.write_all(bytes)?;
        active.end = End::Unknown;
        crash_point::reached("spill_before_fsync");
        active.file.sync_data()?;
        crash_point::reached("spill_after_fsync");
        active.end = End::Clean;
        active.durable_bytes += bytes.len() as u64;
        Ok(())
    }

    fn writable_segment(&mut self) -> io::Result<&mut Active> {
        let open = self.inventory.begin_write();
        if let Some(active) = &mut self.active {
            if active.end != End::Clean {
                active.cut()?;
            }
            if open != Some(active.number) || active.is_spent || active.durable_bytes >= self.segment_bytes {
                self.active = None;
            }
        }
        if self.active.is_none() {
            let number = self.inventory.take_number();
            let file = self.folder.create_segment(number)?;
            self.inventory.opened(number);
            self.active = Some(Active { number, file, durable_bytes: 0, end: End::Clean, is_spent: false });
        }
        self.active.as_mut().ok_or_else(|| io::Error::other("no segment"))
    }

    /// Truncates what was not made durable. Until that succeeds, entries are rejected.
    fn abandon(&mut self) {
        if let Some(active) = &mut self.active {
            active.is_spent |= active.end == End::Unknown;
            if let Err(error) = active.cut()
                && self.complaint.is_due()
            {
                tracing::error!("failed to truncate a failed write in the spill: {error}");
            }
        }
    }
}

impl Active {
    fn cut(&mut self) -> io::Result<()> {
        self.file.cut(self.durable_bytes)?;
        self.end = End::Clean;
        Ok(())
    }
}
