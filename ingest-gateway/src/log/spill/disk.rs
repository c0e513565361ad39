//! The spill's disk operations. A test replaces them with a disk that loses unsynced writes; killing the process would not lose them,
//! because they are already in the kernel's memory.

use service_kit::private_files;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub(super) trait Disk: Send + Sync {
    /// Creates a segment to append to. Neither its content nor its name is durable yet.
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>>;
    /// Makes the folder's file names durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

pub(super) trait SegmentFile: Write + Send {
    fn sync_data(&mut self) -> io::Result<()>;
    /// Durably truncates the segment.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

pub(super) struct RealDisk;

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        Ok(Box::new(private_files::open(File::options().append(true).create_new(true), path)?))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

impl SegmentFile for File {
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

    /// Accepts every write and fails every sync.
    const TAKES_ALL_AND_SYNCS_NOTHING: &str = "/dev/null";

    #[test]
    fn c9_real_disk_syncs_content_and_names() {
        let mut segment: Box<dyn SegmentFile> = Box::new(File::options().append(true).open(TAKES_ALL_AND_SYNCS_NOTHING).unwrap());
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
