//! Confirmed entries survive a power failure. Uses a disk that loses unsynced writes.

use super::disk::{Disk, RealDisk, SegmentFile};
use super::tests::{ORG, QUOTA, gone, org, payload, read_all};
use super::{Spill, SpillError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// A disk that keeps unsynced writes in memory, and tracks files whose names are not durable.
#[derive(Clone, Default)]
struct Forgetful(Arc<Mutex<Memory>>);

#[derive(Default)]
struct Memory {
    /// Files created since the folder's last sync.
    nameless: Vec<PathBuf>,
    /// Makes every fsync fail.
    refuses: bool,
}

struct Volatile {
    disk: Forgetful,
    on_disk: Box<dyn SegmentFile>,
    unsynced: Vec<u8>,
}

impl Forgetful {
    /// Simulates a power failure: everything that isn't durable is lost.
    fn lose_power(&self) {
        for path in self.0.lock().unwrap().nameless.drain(..) {
            std::fs::remove_file(path).unwrap();
        }
    }
}

impl Disk for Forgetful {
    fn create(&self, path: &Path) -> io::Result<Box<dyn SegmentFile>> {
        let on_disk = RealDisk.create(path)?;
        self.0.lock().unwrap().nameless.push(path.to_owned());
        Ok(Box::new(Volatile { disk: self.clone(), on_disk, unsynced: Vec::new() }))
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        self.0.lock().unwrap().nameless.clear();
        Ok(())
    }
}

impl Write for Volatile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unsynced.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SegmentFile for Volatile {
    fn sync_data(&mut self) -> io::Result<()> {
        if self.disk.0.lock().unwrap().refuses {
            return Err(io::Error::other("the disk failed"));
        }
        self.on_disk.write_all(&std::mem::take(&mut self.unsynced))
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.unsynced.clear();
        self.on_disk.cut(length)
    }
}

#[tokio::test]
async fn c9_confirmed_entries_survive_a_power_failure() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), Forgetful::default());
    let (spill, backlog) = Spill::open_on(Box::new(disk.clone()), folder.path(), QUOTA).unwrap();
    for number in 0..20 {
        // Use several segments, because the quota is small.
        let mut large = payload(number);
        large.resize(30_000, b'x');
        spill.append(ORG, &large, 1).await.unwrap();
    }
    disk.lose_power();
    gone(spill, backlog);
    let (_spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
    let read = read_all(&mut backlog);
    let begins = |(number, read): (usize, &Vec<u8>)| read.starts_with(&payload(number));
    assert!(read.len() == 20 && read.iter().enumerate().all(begins), "{} of 20 entries", read.len());
}

#[tokio::test]
async fn c9_entries_of_a_failed_fsync_are_rejected_and_lost() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), Forgetful::default());
    let (spill, backlog) = Spill::open_on(Box::new(disk.clone()), folder.path(), QUOTA).unwrap();
    spill.append(ORG, &payload(0), 1).await.unwrap();
    disk.0.lock().unwrap().refuses = true;
    assert_eq!(spill.append(ORG, &payload(1), 1).await, Err(SpillError::Disk));
    disk.0.lock().unwrap().refuses = false;
    spill.append(ORG, &payload(2), 1).await.unwrap();
    disk.lose_power();
    gone(spill, backlog);
    let (_spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
    assert_eq!(read_all(&mut backlog), [payload(0), payload(2)]);
}

#[tokio::test]
async fn f53_failed_writes_do_not_count_as_used() {
    let (folder, disk) = (tempfile::tempdir().unwrap(), Forgetful::default());
    let (spill, _backlog) = Spill::open_on(Box::new(disk.clone()), folder.path(), QUOTA).unwrap();
    let large = vec![b'x'; 400_000];
    disk.0.lock().unwrap().refuses = true;
    for _ in 0..3 {
        assert_eq!(spill.append(ORG, &large, 1).await, Err(SpillError::Disk));
    }
    disk.0.lock().unwrap().refuses = false;
    assert_eq!(spill.append(org(2), &vec![b'x'; 900_000], 1).await, Ok(()));
    // This append needs part of the reserve.
    assert_eq!(spill.append(ORG, &large[..50_000], 1).await, Ok(()), "rejected writes are not in its share");
    assert_eq!(spill.append(ORG, &large[..50_000], 1).await, Err(SpillError::OwnShare));
}
