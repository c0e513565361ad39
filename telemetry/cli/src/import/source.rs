//! Reads the lines of a log that may still grow, with their offsets.

use super::batch::FIELDS;
use crate::failure::{Failure, file_error, reason};
use crate::log_file::{FileIdentity, Reader, is_gzip, is_stream, open, open_with_identity};
use schemas::identity::{DrainBody, DrainProvider};
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// Maximum line length. Servers accept 1 MiB of headers, which JSON escapes can expand sixfold; the service truncates long strings.
const MAX_LINE_BYTES: u64 = 8 * 1024 * 1024;
const POLL_INTERVAL: Duration = Duration::from_millis(300);
/// Time without new bytes before leaving a replaced file, because its writers continue until they reopen it.
const IDLE_LIMIT: Duration = Duration::from_secs(5);

pub(super) enum SourceEvent {
    /// A file was opened and is read from this offset. Standard input has no identity. `fields` is the latest `#Fields` line before
    /// that offset.
    Opened { identity: Option<FileIdentity>, from: u64, fields: Option<Vec<u8>> },
    /// A line without its end, and the offset from which to read next.
    Line { bytes: Vec<u8>, end: u64 },
    /// Reading failed at this offset.
    Failed { failure: Failure, at: u64 },
}

/// The receiver of the pieces was dropped.
struct ReceiverGone;

enum FileEnd {
    /// The file is complete, or the receiver was dropped.
    Done,
    /// Another file has its name, or it was truncated.
    Replaced,
}

/// What the open file's name now refers to.
#[derive(PartialEq, Eq)]
enum NameTarget {
    /// The same file, or no file, which may come back.
    SameFile,
    DifferentFile,
    /// The same file, but shorter than what was read.
    Truncated,
}

pub(super) struct LogReader {
    pub(super) file: PathBuf,
    pub(super) from: u64,
    pub(super) is_followed: bool,
}

impl LogReader {
    /// Sends pieces until the log ends or the receiver is dropped. Blocks.
    pub(super) fn read(mut self, pieces: &mpsc::Sender<SourceEvent>) {
        loop {
            let mut end = self.from;
            match self.read_file(pieces, &mut end) {
                Err(failure) => {
                    let _ = pieces.blocking_send(SourceEvent::Failed { failure, at: end });
                    return;
                }
                Ok(FileEnd::Replaced) => self.from = 0,
                Ok(FileEnd::Done) => return,
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
    fn read_file(&self, pieces: &mpsc::Sender<SourceEvent>, end: &mut u64) -> Result<FileEnd, Failure> {
        let failed = |error: io::Error| file_error(&self.file, &error);
        let Some((mut reader, identity)) = self.open(pieces)? else { return Ok(FileEnd::Done) };
        let (passed, fields) = skip_bytes(&mut reader, self.from).map_err(failed)?;
        *end = passed;
        if pieces.blocking_send(SourceEvent::Opened { identity, from: *end, fields }).is_err() {
            return Ok(FileEnd::Done);
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
                if send_line(pieces, &mut line, *end).is_err() {
                    return Ok(FileEnd::Done);
                }
                quiet = Duration::ZERO;
                continue;
            }
            if !self.may_grow() {
                return Ok(self.send_last_line(pieces, line, *end));
            }
            quiet = if taken == 0 { quiet + POLL_INTERVAL } else { Duration::ZERO };
            if taken == 0 {
                let named = name_target(&self.file, identity, *end + line.len() as u64);
                if named == NameTarget::SameFile {
                    quiet = Duration::ZERO;
                }
                if named == NameTarget::Truncated || quiet > IDLE_LIMIT {
                    // The writers are gone, so an incomplete last line is final.
                    let is_wanted = send_line(pieces, &mut line, *end).is_ok();
                    return Ok(if is_wanted { FileEnd::Replaced } else { FileEnd::Done });
                }
                if pieces.is_closed() {
                    return Ok(FileEnd::Done);
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    /// Opens the file. Returns `None` if the receiver was dropped. With `--follow`, the name may be missing between two files.
    fn open(&self, pieces: &mpsc::Sender<SourceEvent>) -> Result<Option<(Reader, Option<FileIdentity>)>, Failure> {
        if self.is_stream() {
            return open(&self.file).map(|reader| Some((reader, None)));
        }
        loop {
            match open_with_identity(&self.file) {
                Ok((reader, identity)) => return Ok(Some((reader, Some(identity)))),
                Err(error) if error.kind() != io::ErrorKind::NotFound || !self.may_grow() => {
                    return Err(file_error(&self.file, &error));
                }
                Err(_) if pieces.is_closed() => return Ok(None),
                Err(_) => std::thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Sends an incomplete last line as it is. The next run sends it again from its beginning.
    fn send_last_line(&self, pieces: &mpsc::Sender<SourceEvent>, mut line: Vec<u8>, beginning: u64) -> FileEnd {
        let end = if self.is_stream() { beginning + line.len() as u64 } else { beginning };
        if !line.is_empty() {
            let _ = send_line(pieces, &mut line, end);
        }
        FileEnd::Done
    }
}

/// Skips `bytes` bytes. Returns how many there were, and the latest `#Fields` line among them if the log starts with directives.
fn skip_bytes(reader: &mut Reader, bytes: u64) -> io::Result<(u64, Option<Vec<u8>>)> {
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

fn send_line(pieces: &mpsc::Sender<SourceEvent>, line: &mut Vec<u8>, end: u64) -> Result<(), ReceiverGone> {
    let bytes = std::mem::take(line).trim_ascii().to_vec();
    pieces.blocking_send(SourceEvent::Line { bytes, end }).map_err(|_| ReceiverGone)
}

fn too_long(file: &Path, at: u64) -> Failure {
    Failure::Usage(format!(
        "{}: the line at byte {at} is longer than {MAX_LINE_BYTES} bytes; check that this is a log file",
        file.display()
    ))
}

fn name_target(file: &Path, identity: Option<FileIdentity>, read: u64) -> NameTarget {
    match std::fs::metadata(file) {
        Ok(metadata) if Some(FileIdentity::from_metadata(&metadata)) != identity => NameTarget::DifferentFile,
        Ok(metadata) if metadata.len() < read => NameTarget::Truncated,
        _ => NameTarget::SameFile,
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
