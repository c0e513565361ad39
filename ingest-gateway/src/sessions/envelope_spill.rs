//! Sessions that PostgreSQL has not taken yet, in a file beside the spill: who is told 2xx while PostgreSQL is away has its
//! session also when this process is killed before PostgreSQL is back.
//!
//! Must be written under the lock of the spill's folder, and must give way: a disk that refuses costs no event.

use super::envelope::EnvelopeReport;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

const NAME: &str = "sessions.seen";
const NEXT: &str = "sessions.next";

/// The file, one report a line; the last line of a process that was killed may be torn.
#[derive(Debug)]
pub(super) struct EnvelopeSpill {
    file: File,
    folder: PathBuf,
    /// In it, also those that PostgreSQL has meanwhile.
    pub(super) lines: usize,
}

impl EnvelopeSpill {
    /// Opens the file in the folder of the spill, and reads what an earlier process left there.
    pub(super) fn open(folder: &Path) -> io::Result<(Self, Vec<EnvelopeReport>)> {
        let path = folder.join(NAME);
        let left = match std::fs::read(&path) {
            Ok(left) => left,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut file = File::options().create(true).append(true).open(path)?;
        if left.last().is_some_and(|byte| *byte != b'\n') {
            file.write_all(b"\n")?;
        }
        let lines = left.split(|byte| *byte == b'\n');
        let left: Vec<EnvelopeReport> = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        Ok((Self { file, folder: folder.to_owned(), lines: left.len() }, left))
    }

    /// Makes reports durable.
    pub(super) fn add(&mut self, seen: &[EnvelopeReport]) -> io::Result<()> {
        let before = self.file.metadata()?.len();
        let written = write_durably(&mut self.file, seen);
        match written {
            Ok(()) => self.lines += seen.len(),
            // half a line would take the next one with it
            Err(_) => drop(self.file.set_len(before)),
        }
        written
    }

    /// PostgreSQL has all but these, in one step: whoever is killed in it leaves one file or the other.
    pub(super) fn replace(&mut self, left: &[EnvelopeReport]) -> io::Result<()> {
        let next = self.folder.join(NEXT);
        let mut file = File::options().create(true).append(true).open(&next)?;
        file.set_len(0)?;
        write_durably(&mut file, left)?;
        std::fs::rename(next, self.folder.join(NAME))?;
        (self.file, self.lines) = (file, left.len());
        File::open(&self.folder)?.sync_all()
    }

    /// PostgreSQL has them all.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.lines = 0;
        self.file.set_len(0)
    }
}

fn write_durably(file: &mut File, seen: &[EnvelopeReport]) -> io::Result<()> {
    file.write_all(&lines_of(seen)?)?;
    file.sync_data()
}

fn lines_of(seen: &[EnvelopeReport]) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for report in seen {
        serde_json::to_writer(&mut lines, report)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::EnvelopeFacts;
    use schemas::ids::{OrgId, SessionId};
    use schemas::session::PrivacyLevel;
    use uuid::Uuid;

    const TAKES_ALL_AND_SYNCS_NOTHING: &str = "/dev/null";

    fn report(number: u128) -> EnvelopeReport {
        let (org, session) = (OrgId(Uuid::from_u128(7)), SessionId(Uuid::from_u128(number)));
        EnvelopeReport { org, session, level: Some(PrivacyLevel::Intent), told: EnvelopeFacts::default() }
    }

    #[test]
    fn what_was_kept_is_found_again_behind_a_torn_line_too_until_it_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, left) = EnvelopeSpill::open(folder.path()).unwrap();
        assert!(left.is_empty());
        kept.add(&[report(1), report(2)]).unwrap();
        kept.file.write_all(br#"{"org":"0000"#).unwrap();
        drop(kept);

        let (mut kept, left) = EnvelopeSpill::open(folder.path()).unwrap();
        assert_eq!(left, [report(1), report(2)]);
        kept.add(&[report(3)]).unwrap();
        drop(kept);

        let (mut kept, left) = EnvelopeSpill::open(folder.path()).unwrap();
        assert_eq!(left, [report(1), report(2), report(3)]);
        kept.clear().unwrap();
        assert!(EnvelopeSpill::open(folder.path()).unwrap().1.is_empty());
    }

    #[test]
    fn c9_what_cannot_be_synced_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::options().append(true).open(TAKES_ALL_AND_SYNCS_NOTHING).unwrap();
        let mut kept = EnvelopeSpill { file, folder: folder.path().to_owned(), lines: 0 };
        kept.file.write_all(b"x").unwrap();
        assert!(kept.add(&[report(1)]).is_err());
        assert_eq!(kept.lines, 0);
    }

    #[test]
    fn what_a_process_of_before_kept_names_no_agent() {
        let folder = tempfile::tempdir().unwrap();
        let ids = r#""org":"00000000-0000-0000-0000-000000000007","session":"00000000-0000-0000-0000-000000000001""#;
        let told = r#"{"parent":null,"started_at":null,"manifest_ref":"m"}"#;
        let line = format!("{{{ids},\"level\":\"intent\",\"told\":{told}}}\n");
        std::fs::write(folder.path().join(NAME), line).unwrap();
        let mut expected = report(1);
        expected.told.manifest_ref = Some("m".to_owned());
        assert_eq!(EnvelopeSpill::open(folder.path()).unwrap().1, [expected]);
    }

    #[test]
    fn what_is_replaced_leaves_what_is_left_and_takes_more() {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, _) = EnvelopeSpill::open(folder.path()).unwrap();
        kept.add(&[report(1), report(2), report(3)]).unwrap();
        kept.replace(&[report(3)]).unwrap();
        kept.add(&[report(4)]).unwrap();
        assert_eq!(kept.lines, 2);
        assert_eq!(EnvelopeSpill::open(folder.path()).unwrap().1, [report(3), report(4)]);
    }
}
