//! What the spill asks of a disk, so that a test can put one in its place that forgets whatever was not synced: killing a
//! process does not show that, because what it wrote is in the system's memory by then.
//!
//! Must offer nothing that leaves open whether it is durable: a segment by `sync_data`, its name by `sync_folder`.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// Where segments are made.
pub(super) trait Disk: Send + Sync {
    /// A new segment to append to; durable is not even its name.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Segment>>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// A segment that is written to.
pub(super) trait Segment: Write + Send {
    /// Makes durable what was written.
    fn sync_data(&mut self) -> io::Result<()>;
    /// Cuts it to a length, durably.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// The disk there is.
pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Segment>> {
        Ok(Box::new(File::options().append(true).create_new(true).open(path)?))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl Segment for File {
    fn sync_data(&mut self) -> io::Result<()> {
        Self::sync_data(self)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        self.sync_all()
    }
}
