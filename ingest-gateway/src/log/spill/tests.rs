//! Tests the spill on a real disk: order, crashes, damage, quota, and failed writes.

use super::{Backlog, Pending, Spill, SpillError, frame};
use schemas::ids::OrgId;
use std::fs;
use std::path::{Path, PathBuf};
use uuid::Uuid;

pub(super) const QUOTA: u64 = 1024 * 1024;
pub(super) const ORG: OrgId = org(1);

pub(super) const fn org(number: u128) -> OrgId {
    OrgId(Uuid::from_u128(number))
}

pub(super) fn read_all(backlog: &mut Backlog) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        match backlog.read().unwrap() {
            read if read.is_empty() => return all,
            read => all.extend(read.into_iter().map(|spilled| spilled.payload)),
        }
    }
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    found.sort();
    found
}

pub(super) fn payload(number: usize) -> Vec<u8> {
    format!("payload {number}").into_bytes()
}

/// Returns a folder with `count` entries from a process that has ended.
async fn left_behind(count: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (spill, backlog) = Spill::open(folder.path(), QUOTA).unwrap();
    for number in 0..count {
        spill.append(ORG, &payload(number), 1).await.unwrap();
    }
    gone(spill, backlog);
    folder
}

/// Drops the spill and waits for the writer's thread to release the lock, which happens after the last reference is dropped.
pub(super) fn gone(spill: Spill, backlog: Backlog) {
    let lock = backlog.folder.lock_path();
    drop((spill, backlog));
    let lock = fs::File::open(lock).unwrap();
    lock.lock().unwrap();
}

#[tokio::test]
async fn keeps_order_after_restart() {
    let folder = left_behind(100).await;
    let (spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
    spill.append(ORG, &payload(100), 1).await.unwrap();
    assert_eq!(read_all(&mut backlog), (0..101).map(payload).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writes_share_an_fsync() {
    let folder = tempfile::tempdir().unwrap();
    let (spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
    let spill = std::sync::Arc::new(spill);
    let callers: Vec<_> = (0..1_000)
        .map(|number| {
            let spill = std::sync::Arc::clone(&spill);
            tokio::spawn(async move { spill.append(ORG, &payload(number), 1).await })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap().unwrap();
    }
    let mut read = read_all(&mut backlog);
    read.sort();
    let mut expected: Vec<_> = (0..1_000).map(payload).collect();
    expected.sort();
    assert_eq!(read, expected);
}

#[tokio::test]
async fn released_entries_free_the_quota_and_stay_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let (spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
    let large = vec![b'x'; 100_000];
    for _ in 0..100 {
        spill.append(ORG, &large, 1).await.unwrap();
        let read = backlog.read().unwrap();
        backlog.release(read[0].end, Pending { records: 1, events: 1 }).unwrap();
        backlog.release_all().unwrap();
    }
    assert!(files(folder.path(), "spill").is_empty());
    spill.append(ORG, b"last", 1).await.unwrap();
    gone(spill, backlog);
    let (_spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
    assert_eq!(read_all(&mut backlog), [b"last".to_vec()]);
}

#[tokio::test]
async fn rewinding_reads_the_same_entries() {
    let folder = left_behind(10).await;
    let (_spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
    let first = backlog.read().unwrap();
    backlog.rewind(first[3].begin);
    assert_eq!(read_all(&mut backlog), (3..10).map(payload).collect::<Vec<_>>());
}

#[tokio::test]
async fn c9_skips_an_end_torn_at_any_byte() {
    let folder = left_behind(3).await;
    let path = files(folder.path(), "spill").remove(0);
    let whole = fs::read(&path).unwrap();
    let entry = whole.len() / 3;
    for cut in 0..entry {
        fs::write(&path, &whole[..whole.len() - entry + cut]).unwrap();
        let (spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
        assert_eq!(read_all(&mut backlog), [payload(0), payload(1)], "cut at {cut}");
        gone(spill, backlog);
    }
    fs::write(&path, [&whole[..], &[0; 512]].concat()).unwrap();
    let (_spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
    assert_eq!(read_all(&mut backlog), [payload(0), payload(1), payload(2)], "space that was never written");
    assert!(files(folder.path(), "damaged").is_empty(), "no acknowledged entry is missing");
}

#[tokio::test]
async fn c9_flipped_byte_loses_only_its_entry() {
    let whole = fs::read(files(left_behind(3).await.path(), "spill").remove(0)).unwrap();
    let entry = whole.len() / 3;
    for at in 0..whole.len() {
        let folder = left_behind(3).await;
        let path = files(folder.path(), "spill").remove(0);
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        fs::write(&path, &flipped).unwrap();
        let (_spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
        let kept: Vec<_> = (0..3).filter(|number| at / entry != *number).map(payload).collect();
        assert_eq!(read_all(&mut backlog), kept, "byte {at}");
        let set_aside: Vec<_> = files(folder.path(), "damaged").iter().map(|path| fs::read(path).unwrap()).collect();
        // A last entry whose length points past the end looks unfinished.
        let looks_torn = at / entry == 2 && set_aside.is_empty();
        assert!(looks_torn || set_aside == [flipped[at / entry * entry..][..entry].to_vec()], "byte {at}");
    }
}

#[tokio::test]
async fn full_quota_rejects_entries_without_writing_them() {
    let folder = tempfile::tempdir().unwrap();
    let (spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
    let large = vec![b'x'; 300_000];
    for number in 1..=3 {
        assert_eq!(spill.append(org(number), &large, 1).await, Ok(()));
    }
    assert_eq!(spill.append(org(4), &large, 1).await, Err(SpillError::Full));
    assert_eq!(spill.append(org(4), b"small", 1).await, Ok(()), "a payload that fits is accepted");
    assert_eq!(read_all(&mut backlog).len(), 4);
    let on_disk: u64 = files(folder.path(), "spill").iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(on_disk <= QUOTA);
}

#[tokio::test]
async fn rejects_a_second_process_in_the_same_folder() {
    let folder = tempfile::tempdir().unwrap();
    let _held = Spill::open(folder.path(), QUOTA).unwrap();
    let refused = Spill::open(folder.path(), QUOTA).err().unwrap().to_string();
    assert!(refused.contains("TELEMETRY_SPILL_DIR") && refused.contains("another process"), "{refused}");
}

#[tokio::test]
async fn recovers_after_a_disk_error() {
    let folder = tempfile::tempdir().unwrap();
    let (spill, mut backlog) = Spill::open(folder.path(), QUOTA).unwrap();
    let moved = folder.path().with_extension("moved");
    fs::rename(folder.path(), &moved).unwrap();
    assert_eq!(spill.append(ORG, b"refused", 1).await, Err(SpillError::Disk));
    fs::rename(&moved, folder.path()).unwrap();
    assert_eq!(spill.append(ORG, b"taken", 1).await, Ok(()));
    assert_eq!(read_all(&mut backlog), [b"taken".to_vec()]);
}

/// Appends entries of 1,000 bytes until the organization's share is used up. Returns how many were accepted.
async fn take_all(spill: &Spill, number: u128) -> usize {
    for taken in 0..1_000 {
        if let Err(refusal) = spill.append(org(number), &[b'x'; 1_000], 1).await {
            assert_eq!(refusal, SpillError::OwnShare);
            return taken;
        }
    }
    panic!("the spill is never full")
}

/// Returns a quota for this many entries of 1,000 bytes, in eight segments.
fn quota_of(entries: usize) -> u64 {
    (entries * (1_000 + frame::OVERHEAD_BYTES)) as u64
}

#[tokio::test]
async fn f53_an_eighth_of_the_spill_is_reserved_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let (spill, mut backlog) = Spill::open(folder.path(), quota_of(64)).unwrap();
    let mut taken = Vec::new();
    for number in 1..=5 {
        taken.push(take_all(&spill, number).await);
    }
    assert_eq!(taken, [56, 4, 2, 1, 0]);
    assert!(!spill.has_room(1_000), "no organization could add that much");
    assert_eq!(read_all(&mut backlog).len(), 63);
    backlog.release_all().unwrap();
    assert!(spill.inventory.has_no_shares(), "organizations without bytes are not remembered");
    assert_eq!(take_all(&spill, 7).await, 56);
}

#[tokio::test]
async fn f53_deleting_a_segment_frees_its_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let (spill, mut backlog) = Spill::open(folder.path(), quota_of(64)).unwrap();
    assert_eq!((take_all(&spill, 1).await, take_all(&spill, 2).await), (56, 4));
    let mut ends = Vec::new();
    while ends.len() < 60 {
        ends.extend(backlog.read().unwrap().into_iter().map(|spilled| spilled.end));
    }
    // A segment contains eight entries.
    backlog.release(ends[6], Pending::default()).unwrap();
    assert_eq!(take_all(&spill, 1).await, 0, "no segment is deleted yet");
    backlog.release(ends[7], Pending::default()).unwrap();
    assert_eq!(take_all(&spill, 1).await, 4, "eight entries outside the reserve are free; four fit the share");
}

#[tokio::test]
async fn f53_entries_of_an_earlier_process_have_no_owner() {
    let folder = tempfile::tempdir().unwrap();
    let (spill, backlog) = Spill::open(folder.path(), quota_of(64)).unwrap();
    assert_eq!(take_all(&spill, 1).await, 56);
    gone(spill, backlog);
    let (spill, mut backlog) = Spill::open(folder.path(), quota_of(64)).unwrap();
    assert_eq!((take_all(&spill, 1).await, take_all(&spill, 2).await), (4, 2));
    assert_eq!(read_all(&mut backlog).len(), 62);
}
