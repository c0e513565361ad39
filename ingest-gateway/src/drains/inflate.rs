//! Decompresses a body while it is read (docs/api/drains.md#bodies).

use axum::http::HeaderMap;
use flate2::read::MultiGzDecoder;
use service_kit::http::{ApiError, content_encoding};
use std::io::{self, Read};

/// Maximum zstd window as a power of two: 8 MiB.
const ZSTD_WINDOW_LOG: u32 = 23;
/// Maximum decompressed size of an unframed Snappy block. Vector sends smaller ones.
const MAX_BLOCK_BYTES: usize = 16 * 1024 * 1024;
/// First bytes of framed Snappy.
const SNAPPY_FRAMES: &[u8] = b"\xff\x06\x00\x00sNaPpY";

/// First bytes of gzip and zstd.
const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Zstd,
    Snappy,
}

impl Encoding {
    /// Returns a request's encoding. Rejects multiple encodings.
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let known = [
            ("gzip", Self::Gzip),
            ("x-gzip", Self::Gzip),
            ("zstd", Self::Zstd),
            ("snappy", Self::Snappy),
            ("x-snappy-framed", Self::Snappy),
        ];
        let refusal = "Send at most one Content-Encoding: gzip, zstd or snappy.";
        Ok(content_encoding(headers, &known, refusal)?.unwrap_or(Self::Identity))
    }
}

/// A reader that reports the size of each read. An error stops reading.
pub(super) struct Metered<R, M> {
    inner: R,
    meter: M,
}

impl<R, M> Metered<R, M> {
    pub(super) fn new(inner: R, meter: M) -> Self {
        Self { inner, meter }
    }
}

impl<R: Read, M: FnMut(u64) -> io::Result<()>> Read for Metered<R, M> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        (self.meter)(read as u64)?;
        Ok(read)
    }
}

/// Returns the decompressed body.
pub(super) fn inflated(body: impl Read + 'static, encoding: Encoding) -> io::Result<Box<dyn Read>> {
    inflated_from(Box::new(body), encoding)
}

fn inflated_from(mut body: Box<dyn Read>, encoding: Encoding) -> io::Result<Box<dyn Read>> {
    Ok(match encoding {
        Encoding::Identity => {
            // Some senders don't declare their compression. No log begins with these bytes.
            let mut head = Vec::new();
            body.by_ref().take(ZSTD.len() as u64).read_to_end(&mut head)?;
            let encoding = match head.as_slice() {
                head if head.starts_with(GZIP) => Encoding::Gzip,
                head if head == ZSTD => Encoding::Zstd,
                _ => return Ok(Box::new(io::Cursor::new(head).chain(body))),
            };
            return inflated_from(Box::new(io::Cursor::new(head).chain(body)), encoding);
        }
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

/// Decompresses a Snappy block without framing, as sent by Vector.
fn block(body: impl Read) -> io::Result<Vec<u8>> {
    let mut compressed = Vec::new();
    body.take(MAX_BLOCK_BYTES as u64 + 1).read_to_end(&mut compressed)?;
    let bytes = snap::raw::decompress_len(&compressed).map_err(io::Error::other)?;
    if bytes > MAX_BLOCK_BYTES || compressed.len() > MAX_BLOCK_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the unframed Snappy block is too large"));
    }
    snap::raw::Decoder::new().decompress_vec(&compressed).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn framed(text: &[u8]) -> Vec<u8> {
        let mut encoder = snap::write::FrameEncoder::new(Vec::new());
        encoder.write_all(text).unwrap();
        encoder.into_inner().unwrap()
    }

    fn read(wire: Vec<u8>, encoding: Encoding) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        inflated(io::Cursor::new(wire), encoding)?.read_to_end(&mut read).map(|_| read)
    }

    #[test]
    fn reads_or_rejects_data_after_the_compressed_data() {
        let text = b"{\"a\":1}\n";
        let twice = [text.as_slice(), text].concat();
        let block = snap::raw::Encoder::new().compress_vec(text).unwrap();
        for (encoding, wire, is_framed) in [
            (Encoding::Gzip, gzip(text), true),
            (Encoding::Zstd, zstd::encode_all(text.as_slice(), 3).unwrap(), true),
            (Encoding::Snappy, framed(text), true),
            (Encoding::Snappy, block, false),
        ] {
            assert_eq!(read(wire.clone(), encoding).unwrap(), text, "{encoding:?}");
            assert!(read([wire.as_slice(), b"junk"].concat(), encoding).is_err(), "{encoding:?}");
            let both = read([wire.as_slice(), &wire].concat(), encoding);
            assert!(if is_framed { both.unwrap() == twice } else { both.is_err() }, "{encoding:?}");
        }
    }
}
