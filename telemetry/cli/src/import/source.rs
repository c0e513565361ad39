//! Reads the lines of a log that may still grow, with their offsets.

use super::batch::FIELDS;
use crate::failure::{Failure, of_file, reason};
use crate::log_file::{Identity, Reader, is_gzip, is_stream, open, open_known};
use schemas::identity::{DrainBody, DrainProvider};
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// Maximum line length. Servers accept 1 MiB of headers, which JSON escapes up to sixfold; the service cuts long texts.
const MAX_LINE_BYTES: u64 = 8 * 1024 * 1024;
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// Time without new bytes before leaving a replaced file: its writers continue until they reopen it.
const QUIET: Duration = Duration::from_secs(5);

pub(super) enum Piece {
    /// A file was opened and is read from this offset. Standard input has no identity. `fields` is the latest `#Fields` line before
    /// that offset.
    Opened { identity: Option<Identity>, from: u64, fields: Option<Vec<u8>> },
    /// A line without its end, and the offset from which to read next.
    Line { bytes: Vec<u8>, end: u64 },
    /// Reading failed at this offset.
    Failed { failure: Failure, at: u64 },
}

/// The receiver of the pieces is gone.
struct Unwanted;

enum Ended {
    /// The file is complete, or the receiver is gone.
    Done,
    /// Another file has its name, or it was truncated.
    Replaced,
}

/// What the name of the open file refers to.
#[derive(PartialEq, Eq)]
enum Named {
    /// The same file, or no file: it may come back.
    Same,
    Other,
    /// The same file, but shorter than what was read.
    Cut,
}

pub(super) struct Source {
    pub(super) file: PathBuf,
    pub(super) from: u64,
    pub(super) is_followed: bool,
}

impl Source {
    /// Sends pieces until the log ends or the receiver is gone. Blocking.
    pub(super) fn read(mut self, pieces: &mpsc::Sender<Piece>) {
        loop {
            let mut end = self.from;
            match self.read_file(pieces, &mut end) {
                Err(failure) => {
                    let _ = pieces.blocking_send(Piece::Failed { failure, at: end });
                    return;
                }
                Ok(Ended::Replaced) => self.from = 0,
                Ok(Ended::Done) => return,
            }
        }
    }

    fn is_stream(&self) -> bool {
        is_stream(&self.file)
    }

    /// Whether an incomplete last line may still be completed.
    fn may_grow(&self) -> bool {
        self.is_followed && !self.is_stream()
    }

    /// Reads one file; `end` is the end of the last line that was sent.
    fn read_file(&self, pieces: &mpsc::Sender<Piece>, end: &mut u64) -> Result<Ended, Failure> {
        let failed = |error: io::Error| of_file(&self.file, &error);
        let Some((mut reader, identity)) = self.open(pieces)? else { return Ok(Ended::Done) };
        let (passed, fields) = pass(&mut reader, self.from).map_err(failed)?;
        *end = passed;
        if pieces.blocking_send(Piece::Opened { identity, from: *end, fields }).is_err() {
            return Ok(Ended::Done);
        }
        let (mut line, mut quiet) = (Vec::new(), Duration::ZERO);
        loop {
            let left = (MAX_LINE_BYTES + 1).saturating_sub(line.len() as u64);
            let taken = reader.by_ref().take(left).read_until(b'\n', &mut line).map_err(failed)?;
            if line.len() as u64 > MAX_LINE_BYTES {
                return Err(too_long(&self.file, *end));
            }
            if line.last() == Some(&b'\n') {
                *end += line.len() as u64;
                if hand_over(pieces, &mut line, *end).is_err() {
                    return Ok(Ended::Done);
                }
                quiet = Duration::ZERO;
                continue;
            }
            if !self.may_grow() {
                return Ok(self.hand_over_last(pieces, line, *end));
            }
            quiet = if taken == 0 { quiet + LOOK_AGAIN } else { Duration::ZERO };
            if taken == 0 {
                let named = named(&self.file, identity, *end + line.len() as u64);
                if named == Named::Same {
                    quiet = Duration::ZERO;
                }
                if named == Named::Cut || quiet > QUIET {
                    // The writers are gone, so an incomplete last line is final.
                    let is_wanted = hand_over(pieces, &mut line, *end).is_ok();
                    return Ok(if is_wanted { Ended::Replaced } else { Ended::Done });
                }
                if pieces.is_closed() {
                    return Ok(Ended::Done);
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
    }

    /// Opens the file; returns `None` if the receiver is gone. With `--follow`, the name may be missing between two files.
    fn open(&self, pieces: &mpsc::Sender<Piece>) -> Result<Option<(Reader, Option<Identity>)>, Failure> {
        if self.is_stream() {
            return open(&self.file).map(|reader| Some((reader, None)));
        }
        loop {
            match open_known(&self.file) {
                Ok((reader, identity)) => return Ok(Some((reader, Some(identity)))),
                Err(error) if error.kind() != io::ErrorKind::NotFound || !self.may_grow() => {
                    return Err(of_file(&self.file, &error));
                }
                Err(_) if pieces.is_closed() => return Ok(None),
                Err(_) => std::thread::sleep(LOOK_AGAIN),
            }
        }
    }

    /// Sends an incomplete last line as it is; the next run sends it again from its beginning.
    fn hand_over_last(&self, pieces: &mpsc::Sender<Piece>, mut line: Vec<u8>, beginning: u64) -> Ended {
        let end = if self.is_stream() { beginning + line.len() as u64 } else { beginning };
        if !line.is_empty() {
            let _ = hand_over(pieces, &mut line, end);
        }
        Ended::Done
    }
}

/// Skips `bytes` bytes; returns how many there were, and the latest `#Fields` line in them if the log starts with directives.
fn pass(reader: &mut Reader, bytes: u64) -> io::Result<(u64, Option<Vec<u8>>)> {
    let mut reader = reader.by_ref().take(bytes);
    if bytes == 0 || reader.fill_buf()?.first() != Some(&b'#') {
        return Ok((io::copy(&mut reader, &mut io::sink())?, None));
    }
    let (mut passed, mut line, mut fields) = (0, Vec::new(), None);
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok((passed, fields));
        }
        passed += read as u64;
        if line.starts_with(FIELDS) {
            fields = Some(line.trim_ascii().to_vec());
        }
    }
}

fn hand_over(pieces: &mpsc::Sender<Piece>, line: &mut Vec<u8>, end: u64) -> Result<(), Unwanted> {
    let bytes = std::mem::take(line).trim_ascii().to_vec();
    pieces.blocking_send(Piece::Line { bytes, end }).map_err(|_| Unwanted)
}

fn too_long(file: &Path, at: u64) -> Failure {
    Failure::Usage(format!(
        "{}: the line at byte {at} is longer than {MAX_LINE_BYTES} bytes; check that this is a log file",
        file.display()
    ))
}

fn named(file: &Path, identity: Option<Identity>, read: u64) -> Named {
    match std::fs::metadata(file) {
        Ok(metadata) if Some(Identity::of(&metadata)) != identity => Named::Other,
        Ok(metadata) if metadata.len() < read => Named::Cut,
        _ => Named::Same,
    }
}

/// Rejects JSON arrays, which can't be resumed at a line, and following compressed files, which don't grow by lines. A combined
/// log is never JSON, however it starts.
pub(super) fn require_lines(file: &Path, provider: DrainProvider, is_followed: bool) -> Result<(), Failure> {
    if is_stream(file) {
        return Ok(());
    }
    if is_followed && is_gzip(file)? {
        return Err(Failure::Usage(format!("{}: --follow doesn't support compressed files", file.display())));
    }
    if provider.facts().body == DrainBody::Text {
        return Ok(());
    }
    let mut reader = open(file)?;
    let beginning = reader.fill_buf().map_err(|error| Failure::Failed(reason(&error)))?;
    match beginning.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => Err(Failure::Usage(format!("{}: a JSON array; convert it to lines with `jq -c '.[]'`", file.display()))),
        _ => Ok(()),
    }
}
