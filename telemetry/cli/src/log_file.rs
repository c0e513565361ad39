//! Log files: plain, compressed with gzip, or standard input.
//!
//! Files are read as streams, because a log may be larger than memory.

use crate::failure::{Failure, file_error};
use flate2::read::MultiGzDecoder;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

const GZIP: &[u8] = &[0x1f, 0x8b];

pub(crate) type Reader = Box<dyn BufRead + Send>;

/// A file's identity, regardless of its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity(u64, u64);

impl FileIdentity {
    pub(crate) fn from_metadata(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

/// Opens a log; `-` is standard input.
pub(crate) fn open(file: &Path) -> Result<Reader, Failure> {
    if file == Path::new("-") {
        return uncompressed(io::stdin()).map_err(|error| file_error(file, &error));
    }
    open_with_identity(file).map(|(reader, _)| reader).map_err(|error| file_error(file, &error))
}

/// Opens a log file and returns its identity.
pub(crate) fn open_with_identity(file: &Path) -> io::Result<(Reader, FileIdentity)> {
    let opened = opened(file)?;
    let identity = FileIdentity::from_metadata(&opened.metadata()?);
    Ok((uncompressed(opened)?, identity))
}

fn uncompressed(raw: impl Read + Send + 'static) -> io::Result<Reader> {
    let mut raw = BufReader::new(raw);
    let is_gzip = raw.fill_buf()?.starts_with(GZIP);
    Ok(if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(raw))) } else { Box::new(raw) })
}

/// Returns whether a log can be read only once: standard input or a named pipe, as in `<(zcat access.log.gz)`.
pub(crate) fn is_stream(file: &Path) -> bool {
    file == Path::new("-") || std::fs::metadata(file).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

pub(crate) fn is_gzip(file: &Path) -> Result<bool, Failure> {
    let mut beginning = Vec::new();
    let read = opened(file).and_then(|opened| opened.take(GZIP.len() as u64).read_to_end(&mut beginning));
    read.map_err(|error| file_error(file, &error))?;
    Ok(beginning == GZIP)
}

fn opened(file: &Path) -> io::Result<File> {
    let opened = File::open(file)?;
    if opened.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(opened) }
}
