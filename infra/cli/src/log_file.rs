//! Log files as they lie on a disk: plain, compressed with gzip, or standard input.
//!
//! Must read as it goes: a log may be larger than memory.

use crate::failure::{Failure, of_file};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

const GZIP: &[u8] = &[0x1f, 0x8b];

/// Opens a log; `-` is standard input.
pub(crate) fn open(file: &Path) -> Result<Box<dyn BufRead + Send>, Failure> {
    let failed = |error| of_file(file, &error);
    let raw: Box<dyn Read + Send> =
        if file == Path::new("-") { Box::new(io::stdin()) } else { Box::new(opened(file).map_err(failed)?) };
    let mut raw = BufReader::new(raw);
    let is_gzip = raw.fill_buf().map_err(failed)?.starts_with(GZIP);
    Ok(if is_gzip { Box::new(BufReader::new(MultiGzDecoder::new(raw))) } else { Box::new(raw) })
}

/// Whether a file is compressed.
pub(crate) fn is_gzip(file: &Path) -> Result<bool, Failure> {
    let mut beginning = Vec::new();
    let read = opened(file).and_then(|opened| opened.take(GZIP.len() as u64).read_to_end(&mut beginning));
    read.map_err(|error| of_file(file, &error))?;
    Ok(beginning == GZIP)
}

fn opened(file: &Path) -> io::Result<File> {
    let opened = File::open(file)?;
    if opened.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(opened) }
}
