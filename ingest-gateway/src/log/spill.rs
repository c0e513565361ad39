//! Stores accepted records while the log does not acknowledge them: files in one folder, fsynced before the 2xx and drained in order.
//!
//! ```text
//!  append ──► writer: one thread, many entries, one fsync ──► 000…1.spill 000…2.spill …   frame: length, CRC32C, version
//!                                                                   │
//!  log    ◄── drain ◄────────────── backlog: reads in order ◄───────┘                     `drained`: up to here
//! ```
//!
//! A process never appends to an earlier process's segment, so a torn end is only read, never overwritten. The backlog sees an entry only
//! after its fsync, and a segment is deleted when every entry in it is on the log.
//!
//! An eighth of the quota is a reserve: an organization may use part of it only while at least as many bytes as it has in total
//! stay free (docs/api/http.md#shares).

mod backlog;
mod disk;
mod folder;
mod frame;
mod inventory;
#[cfg(test)]
mod power_failure_tests;
mod usage_by_organization;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use backlog::{Backlog, SpilledEntry};
pub(crate) use folder::Position;
pub(crate) use inventory::{Inventory, Pending};

use disk::{Disk, RealDisk};
use folder::Folder;
use schemas::ids::OrgId;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use writer::Entry;

/// Maximum segment size. A small quota has smaller segments, so that draining frees parts of it.
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
const SEGMENTS_OF_A_QUOTA: u64 = 8;
/// Maximum time that a caller waits for an fsync. A slower disk counts as unavailable.
const SYNC_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpillError {
    Full,
    /// The rest of the quota is reserved for organizations with less data in the spill.
    OwnShare,
    Disk,
    /// The disk did not respond in time; the entry may become durable later.
    Slow,
}

pub(crate) struct Spill {
    inventory: Arc<Inventory>,
    writer: Sender<Entry>,
}

impl Spill {
    pub(crate) fn open(path: &Path, max_bytes: u64) -> anyhow::Result<(Self, Backlog)> {
        Self::open_on(Box::new(RealDisk), path, max_bytes)
    }

    fn open_on(disk: Box<dyn Disk>, path: &Path, max_bytes: u64) -> anyhow::Result<(Self, Backlog)> {
        let folder = Arc::new(Folder::open(path, disk)?);
        let drained = folder.checkpoint();
        let inventory = Arc::new(Inventory::new(folder.segments()?, drained, max_bytes));
        let segment_bytes = SEGMENT_BYTES.min(max_bytes / SEGMENTS_OF_A_QUOTA);
        let writer = writer::start(Arc::clone(&folder), Arc::clone(&inventory), segment_bytes)?;
        let backlog = Backlog { folder, inventory: Arc::clone(&inventory), at: drained, file: None, noted: Instant::now() };
        Ok((Self { inventory, writer }, backlog))
    }

    /// Makes a payload durable. Payloads are read in the order of the calls, unless the calls overlap.
    pub(crate) async fn append(&self, org: OrgId, payload: &[u8], events: u64) -> Result<(), SpillError> {
        let bytes = frame::encode(payload);
        self.inventory.claim(org, bytes.len() as u64)?;
        let (answer, answered) = oneshot::channel();
        self.writer.send(Entry { org, bytes, events, answer }).map_err(|_| SpillError::Disk)?;
        match tokio::time::timeout(SYNC_PATIENCE, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(SpillError::Disk),
            Err(_) => Err(SpillError::Slow),
        }
    }

    /// Returns whether an organization without spilled data could append a payload of `bytes` now.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.inventory.has_room((bytes + frame::OVERHEAD_BYTES) as u64)
    }
}
