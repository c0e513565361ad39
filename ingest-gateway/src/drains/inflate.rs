//! A body as it arrives, inflated on the way (docs/api/drains.md#bodies).
//!
//! Must not hold more of a body than a few parts of it, whatever it says of itself; only a block of Snappy without frames has to
//! be there whole, and is small.

use axum::body::Bytes;
use axum::http::HeaderMap;
use flate2::read::MultiGzDecoder;
use service_kit::http::{ApiError, content_encoding};
use std::io::{self, Read};
use tokio::sync::mpsc;

/// Largest zstd window, as a power of two: 8 MiB.
const ZSTD_WINDOW_LOG: u32 = 23;
/// Largest block of Snappy without frames, inflated; what Vector sends is smaller.
const MAX_BLOCK_BYTES: usize = 16 * 1024 * 1024;
/// What a Snappy body with frames begins with.
const SNAPPY_FRAMES: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Zstd,
    Snappy,
}

impl Encoding {
    /// The one encoding of a request.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let known = [("gzip", Self::Gzip), ("zstd", Self::Zstd), ("snappy", Self::Snappy), ("x-snappy-framed", Self::Snappy)];
        let refusal = "Send one Content-Encoding: gzip, zstd or snappy, or none.";
        Ok(content_encoding(headers, &known, refusal)?.unwrap_or(Self::Identity))
    }
}

/// The parts of a body as they arrive from the task that reads the request. Blocking.
pub(super) struct Parts {
    arriving: mpsc::Receiver<io::Result<Bytes>>,
    part: Bytes,
}

impl Parts {
    pub(super) fn new(arriving: mpsc::Receiver<io::Result<Bytes>>) -> Self {
        Self { arriving, part: Bytes::new() }
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.part.is_empty() {
            match self.arriving.blocking_recv() {
                Some(part) => self.part = part?,
                None => return Ok(0),
            }
        }
        let taken = self.part.split_to(self.part.len().min(buffer.len()));
        buffer[..taken.len()].copy_from_slice(&taken);
        Ok(taken.len())
    }
}

/// The body without its compression.
pub(super) fn inflated(mut body: impl Read + 'static, encoding: Encoding) -> io::Result<Box<dyn Read>> {
    Ok(match encoding {
        Encoding::Identity => Box::new(body),
        Encoding::Gzip => Box::new(MultiGzDecoder::new(body)),
        Encoding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(body)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG)?;
            Box::new(decoder)
        }
        Encoding::Snappy => {
            let mut head = Vec::new();
            body.by_ref().take(SNAPPY_FRAMES.len() as u64).read_to_end(&mut head)?;
            let is_framed = head == SNAPPY_FRAMES;
            let body = io::Cursor::new(head).chain(body);
            if is_framed { Box::new(snap::read::FrameDecoder::new(body)) } else { Box::new(io::Cursor::new(block(body)?)) }
        }
    })
}

/// A block of Snappy without frames, as Vector sends it.
fn block(body: impl Read) -> io::Result<Vec<u8>> {
    let mut compressed = Vec::new();
    body.take(MAX_BLOCK_BYTES as u64 + 1).read_to_end(&mut compressed)?;
    let bytes = snap::raw::decompress_len(&compressed).map_err(io::Error::other)?;
    if bytes > MAX_BLOCK_BYTES || compressed.len() > MAX_BLOCK_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a block of Snappy without frames is too large"));
    }
    snap::raw::Decoder::new().decompress_vec(&compressed).map_err(io::Error::other)
}

/// A reader that refuses more than so many bytes.
pub(super) struct Limited<R> {
    inner: R,
    left: u64,
}

impl<R> Limited<R> {
    pub(super) fn new(inner: R, bytes: u64) -> Self {
        Self { inner, left: bytes }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self
            .left
            .checked_sub(read as u64)
            .ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "the body is too large once inflated"))?;
        Ok(read)
    }
}
