//! What the spill asks of a disk, so that a test can put one in its place that forgets whatever was not synced: killing a
//! process does not show that, because what it wrote is in the system's memory by then.

use service_kit::private_files;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub(super) trait Disk: Send + Sync {
    /// A new segment to append to; durable is not even its name.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Segment>>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

pub(super) trait Segment: Write + Send {
    /// Makes durable what was written.
    fn sync_data(&mut self) -> io::Result<()>;
    /// Cuts it to a length, durably.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Segment>> {
        Ok(Box::new(private_files::open(File::options().append(true).create_new(true), path)?))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all that is written, and refuses to be synced: whoever asks it hears that.
    const TAKES_ALL_AND_SYNCS_NOTHING: &str = "/dev/null";

    #[test]
    fn c9_the_disk_there_is_syncs_what_was_written_and_names() {
        let mut segment: Box<dyn Segment> = Box::new(File::options().append(true).open(TAKES_ALL_AND_SYNCS_NOTHING).unwrap());
        segment.write_all(b"x").unwrap();
        assert!(segment.sync_data().is_err());
        assert!(RealDisk.sync_folder(Path::new(TAKES_ALL_AND_SYNCS_NOTHING)).is_err());

        let folder = tempfile::tempdir().unwrap();
        let mut segment = RealDisk.create(&folder.path().join("1")).unwrap();
        segment.write_all(b"x").unwrap();
        segment.sync_data().unwrap();
        RealDisk.sync_folder(folder.path()).unwrap();
    }
}
