//! Sessions that PostgreSQL has not taken yet, in a file beside the spill: who is told 2xx while PostgreSQL is away has its
//! session also when this process is killed before PostgreSQL is back.
//!
//! Must be written under the lock of the spill's folder, and must give way: a disk that refuses costs no event.

use super::sightings::Sighting;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

const NAME: &str = "sessions.seen";

/// The file, one sighting a line; the last line of a process that was killed may be torn.
#[derive(Debug)]
pub(super) struct Kept(File);

impl Kept {
    /// Opens the file in the folder of the spill, and reads what an earlier process left there.
    pub(super) fn open(folder: &Path) -> io::Result<(Self, Vec<Sighting>)> {
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
        Ok((Self(file), lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()))
    }

    /// Makes sightings durable.
    pub(super) fn add(&mut self, seen: &[Sighting]) -> io::Result<()> {
        let mut lines = Vec::new();
        for sighting in seen {
            serde_json::to_writer(&mut lines, sighting)?;
            lines.push(b'\n');
        }
        let before = self.0.metadata()?.len();
        let written = self.0.write_all(&lines).and_then(|()| self.0.sync_data());
        if written.is_err() {
            // half a line would take the next one with it
            let _ = self.0.set_len(before);
        }
        written
    }

    /// PostgreSQL has them all.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.0.set_len(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::ids::{OrgId, SessionId};
    use schemas::session::PrivacyLevel;
    use uuid::Uuid;

    fn sighting(number: u128) -> Sighting {
        let (org, session) = (OrgId(Uuid::from_u128(7)), SessionId(Uuid::from_u128(number)));
        Sighting { org, session, level: Some(PrivacyLevel::Intent), told: super::super::Told::default() }
    }

    #[test]
    fn what_was_kept_is_found_again_behind_a_torn_line_too_until_it_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let (mut kept, left) = Kept::open(folder.path()).unwrap();
        assert!(left.is_empty());
        kept.add(&[sighting(1), sighting(2)]).unwrap();
        kept.0.write_all(br#"{"org":"0000"#).unwrap();
        drop(kept);

        let (mut kept, left) = Kept::open(folder.path()).unwrap();
        assert_eq!(left, [sighting(1), sighting(2)]);
        kept.add(&[sighting(3)]).unwrap();
        drop(kept);

        let (mut kept, left) = Kept::open(folder.path()).unwrap();
        assert_eq!(left, [sighting(1), sighting(2), sighting(3)]);
        kept.clear().unwrap();
        assert!(Kept::open(folder.path()).unwrap().1.is_empty());
    }
}
