//! The lines of a log that may still grow, with the place where each of them ends.
//!
//! Must hand on no line that is not whole while it may still become whole, and must not keep more than one in memory.

use crate::failure::{Failure, of_file, reason};
use crate::log_file::{is_gzip, open};
use sha2::{Digest, Sha256};
use std::io::{self, BufRead, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// Longest line; the service takes shorter ones still.
const MAX_LINE_BYTES: u64 = 1024 * 1024;
/// Between two looks at a file that may grow.
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// By so much of its beginning a log is known again.
const HEAD_BYTES: usize = 4 * 1024;

/// What comes of a log.
pub(super) enum Piece {
    /// A line without its end, and how many bytes of the log are read with it.
    Line { bytes: Vec<u8>, end: u64 },
    /// The file was replaced: what follows is of a new one.
    Replaced,
    /// It cannot be read.
    Failed(Failure),
}

/// How a log begins: another log under the same name begins otherwise.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Head {
    bytes: usize,
    sha256: String,
}

impl Head {
    /// Of a log, as far as it was read.
    pub(super) fn of(file: &Path, read: u64) -> Result<Self, Failure> {
        let bytes = usize::try_from(read).unwrap_or(HEAD_BYTES).min(HEAD_BYTES);
        let mut head = Vec::new();
        let taken = open(file)?.take(bytes as u64).read_to_end(&mut head);
        taken.map_err(|error| of_file(file, &error))?;
        let sha256 = Sha256::digest(&head).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { bytes: head.len(), sha256 })
    }
}

/// One log.
pub(super) struct Source {
    pub(super) file: PathBuf,
    /// Where to begin.
    pub(super) from: u64,
    /// Whether more of it may come.
    pub(super) is_followed: bool,
}

impl Source {
    /// Hands over the pieces until there are no more, or nobody takes them. Blocking.
    pub(super) fn read(mut self, pieces: &mpsc::Sender<Piece>) {
        let is_stdin = self.file == Path::new("-");
        loop {
            match self.read_file(pieces) {
                Err(failure) => {
                    let _ = pieces.blocking_send(Piece::Failed(failure));
                    return;
                }
                Ok(true) if self.is_followed && !is_stdin => {
                    self.from = 0;
                    if pieces.blocking_send(Piece::Replaced).is_err() {
                        return;
                    }
                }
                Ok(_) => return,
            }
        }
    }

    /// True when the file was replaced by another one, false at its end or when nobody takes any more.
    fn read_file(&self, pieces: &mpsc::Sender<Piece>) -> Result<bool, Failure> {
        let failed = |error: io::Error| of_file(&self.file, &error);
        let mut reader = open(&self.file)?;
        let skipped = io::copy(&mut reader.by_ref().take(self.from), &mut io::sink()).map_err(failed)?;
        let (mut end, mut line) = (skipped, Vec::new());
        let identity = identity(&self.file);
        loop {
            let left = (MAX_LINE_BYTES + 1).saturating_sub(line.len() as u64);
            let taken = reader.by_ref().take(left).read_until(b'\n', &mut line).map_err(failed)?;
            end += taken as u64;
            if line.len() as u64 > MAX_LINE_BYTES {
                return Err(too_long(&self.file, end - line.len() as u64));
            }
            let is_whole = line.last() == Some(&b'\n');
            let is_last = !is_whole && (!self.is_followed || self.file == Path::new("-"));
            if is_whole || (is_last && !line.is_empty()) {
                let bytes = std::mem::take(&mut line).trim_ascii().to_vec();
                if pieces.blocking_send(Piece::Line { bytes, end }).is_err() {
                    return Ok(false);
                }
            } else if is_last {
                return Ok(false);
            } else if taken == 0 {
                if is_replaced(&self.file, identity, end) {
                    // nobody writes on: what has no end by now is a line as it stands
                    let bytes = std::mem::take(&mut line).trim_ascii().to_vec();
                    return Ok(pieces.blocking_send(Piece::Line { bytes, end }).is_ok());
                }
                if pieces.is_closed() {
                    return Ok(false);
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }
}

fn too_long(file: &Path, at: u64) -> Failure {
    Failure::Usage(format!("{}: the line at byte {at} is longer than {MAX_LINE_BYTES} bytes; is it a log?", file.display()))
}

fn identity(file: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(file).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Whether the name stands for another file by now, or the file was cut. A name that stands for nothing may come back.
fn is_replaced(file: &Path, before: Option<(u64, u64)>, end: u64) -> bool {
    let Ok(metadata) = std::fs::metadata(file) else { return false };
    Some((metadata.dev(), metadata.ino())) != before || metadata.len() < end
}

/// A log that is one JSON array has no lines to go on from, and what is compressed does not grow by lines.
pub(super) fn require_lines(file: &Path, is_followed: bool) -> Result<(), Failure> {
    if file == Path::new("-") {
        return Ok(());
    }
    if is_followed && is_gzip(file)? {
        return Err(Failure::Usage(format!("{}: compressed, and so not a log that grows; leave --follow out", file.display())));
    }
    let mut reader = open(file)?;
    let beginning = reader.fill_buf().map_err(|error| Failure::Failed(reason(&error)))?;
    match beginning.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => Err(Failure::Usage(format!("{}: one JSON array; make lines of it, as `jq -c '.[]'` does", file.display()))),
        _ => Ok(()),
    }
}
