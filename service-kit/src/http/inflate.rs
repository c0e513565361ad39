//! Content encodings: decompresses the supported ones up to a size limit and rejects others.

use super::ApiError;
use axum::http::{HeaderMap, header};
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use schemas::problem::Code;
use std::io::{self, Read};

/// Maximum zstd window, as a power of two. Limits a decoder's memory to 8 MiB.
const ZSTD_WINDOW_LOG: u32 = 23;
const BROTLI_BUFFER_BYTES: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl Encoding {
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let known = [("gzip", Self::Gzip), ("deflate", Self::Deflate), ("br", Self::Brotli), ("zstd", Self::Zstd)];
        let refusal = "Send at most one Content-Encoding: gzip, deflate, br or zstd.";
        Ok(content_encoding(headers, &known, refusal)?.unwrap_or(Self::Identity))
    }
}

/// Returns the request's `Content-Encoding` from `known`, or `None` if it is absent or `identity`. Returns 415 for a list or
/// an unknown encoding.
pub fn content_encoding<E: Copy>(headers: &HeaderMap, known: &[(&str, E)], refusal: &str) -> Result<Option<E>, ApiError> {
    let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let named = value.to_str().unwrap_or_default().trim().to_ascii_lowercase();
    let found = known.iter().find(|(name, _)| *name == named).map(|(_, encoding)| *encoding);
    match (found, values.next()) {
        (found @ Some(_), None) => Ok(found),
        (None, None) if named == "identity" => Ok(None),
        _ => Err(ApiError::new(Code::UnsupportedMediaType, refusal)),
    }
}

/// Decompresses `wire`. Blocks for a few milliseconds at most.
pub(super) fn inflate(wire: &[u8], encoding: Encoding, max_bytes: usize) -> Result<Vec<u8>, ApiError> {
    let inflated = match encoding {
        Encoding::Identity => Ok(wire.to_vec()),
        Encoding::Gzip => read_capped(MultiGzDecoder::new(wire), max_bytes),
        Encoding::Deflate => deflate(wire, max_bytes),
        Encoding::Brotli => brotli(wire, max_bytes),
        Encoding::Zstd => zstd(wire, max_bytes),
    };
    let inflated = inflated.map_err(|_| ApiError::new(Code::InvalidBody, "The body doesn't match its Content-Encoding."))?;
    if inflated.len() > max_bytes {
        return Err(ApiError::new(Code::TooLarge, format!("The body is larger than {max_bytes} bytes when decompressed.")));
    }
    Ok(inflated)
}

/// Reads at most one byte more than the limit. Allocates the buffer up front, because the allocator would retain the smaller buffers of a
/// growing one; unwritten pages cost no memory.
fn read_capped(reader: impl Read, max_bytes: usize) -> io::Result<Vec<u8>> {
    let mut inflated = Vec::with_capacity(max_bytes + 1);
    reader.take(max_bytes as u64 + 1).read_to_end(&mut inflated)?;
    inflated.shrink_to_fit();
    Ok(inflated)
}

fn deflate(wire: &[u8], max_bytes: usize) -> io::Result<Vec<u8>> {
    let mut decoder = ZlibDecoder::new(wire);
    let inflated = read_capped(&mut decoder, max_bytes)?;
    require_end(inflated.len() > max_bytes || decoder.total_in() == wire.len() as u64)?;
    Ok(inflated)
}

fn brotli(wire: &[u8], max_bytes: usize) -> io::Result<Vec<u8>> {
    let mut decoder = brotli_decompressor::Decompressor::new(wire, BROTLI_BUFFER_BYTES);
    let inflated = read_capped(&mut decoder, max_bytes)?;
    if inflated.len() <= max_bytes {
        // The decoder stops at the end of the compressed data. Only another read detects trailing bytes, and only those in its buffer.
        let is_at_end = decoder.read(&mut [0])? == 0;
        require_end(is_at_end && decoder.get_ref().is_empty())?;
    }
    Ok(inflated)
}

fn zstd(wire: &[u8], max_bytes: usize) -> io::Result<Vec<u8>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(wire)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG)?;
    read_capped(decoder, max_bytes)
}

fn require_end(is_whole: bool) -> io::Result<()> {
    if is_whole { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidData, "trailing bytes after the compressed data")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;
    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};
    use std::io::Write;

    #[test]
    fn accepts_exactly_one_known_encoding() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            content_encoding(&headers, &[("gzip", 1), ("zstd", 2)], "one of two").map_err(|error| error.detail().to_owned())
        };
        assert_eq!([of(&[]), of(&["identity"]), of(&[" IDENTITY "])], [Ok(None), Ok(None), Ok(None)]);
        assert_eq!([of(&["gzip"]), of(&[" ZSTD"])], [Ok(Some(1)), Ok(Some(2))]);
        for refused in [&["br"][..], &[""], &["gzip, zstd"], &["gzip", "zstd"], &["gzip", "gzip"], &["identity", "gzip"]] {
            assert_eq!(of(refused), Err("one of two".to_owned()), "{refused:?}");
        }
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zlib(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn brotli(text: &[u8]) -> Vec<u8> {
        let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4_096, 5, 22);
        encoder.write_all(text).unwrap();
        encoder.into_inner()
    }

    fn samples(text: &[u8]) -> [(Encoding, Vec<u8>); 4] {
        [
            (Encoding::Gzip, gzip(text)),
            (Encoding::Deflate, zlib(text)),
            (Encoding::Brotli, brotli(text)),
            (Encoding::Zstd, zstd::encode_all(text, 3).unwrap()),
        ]
    }

    #[test]
    fn size_limits_are_exact_for_each_encoding() {
        let text = vec![b'a'; 10_000];
        for (encoding, wire) in samples(&text) {
            assert_eq!(inflate(&wire, encoding, 10_000).unwrap(), text, "{encoding:?}");
            assert_eq!(inflate(&wire, encoding, 9_999).unwrap_err().code(), Code::TooLarge, "{encoding:?}");
        }
    }

    #[test]
    fn rejects_truncated_mislabeled_and_trailing_data() {
        for (encoding, wire) in samples(b"{\"events\":[]}") {
            let trailing = [wire.as_slice(), b"junk"].concat();
            for bad in [&wire[..wire.len() - 2], &trailing, b"{\"events\":[]}"] {
                assert_eq!(inflate(bad, encoding, 1_000).unwrap_err().code(), Code::InvalidBody, "{encoding:?}");
            }
        }
        assert!(inflate(b"not brotli at all", Encoding::Brotli, 1_000).is_err());
    }

    #[test]
    fn rejects_data_after_brotli_at_any_buffer_position() {
        let mut random = StdRng::seed_from_u64(4_096);
        let mut is_buffer_full = false;
        for length in BROTLI_BUFFER_BYTES - 64..BROTLI_BUFFER_BYTES {
            let mut text = vec![0; length];
            random.fill_bytes(&mut text);
            let wire = brotli(&text);
            is_buffer_full |= wire.len() == BROTLI_BUFFER_BYTES;
            assert_eq!(inflate(&wire, Encoding::Brotli, length).unwrap(), text);
            for trailing in [wire.as_slice(), b"\0", &[b'x'; 3 * BROTLI_BUFFER_BYTES]] {
                let refused = inflate(&[wire.as_slice(), trailing].concat(), Encoding::Brotli, length);
                assert_eq!(refused.unwrap_err().code(), Code::InvalidBody, "{} bytes and {}", wire.len(), trailing.len());
            }
        }
        assert!(is_buffer_full, "no length fills the buffer exactly");
    }

    #[test]
    fn x4_decompresses_every_gzip_member() {
        let two = [gzip(b"{\"a\":"), gzip(b"1}")].concat();
        assert_eq!(inflate(&two, Encoding::Gzip, 1_000).unwrap(), b"{\"a\":1}");
    }
}
