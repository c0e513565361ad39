//! The byte format of a spill entry: `length u32 | CRC32C u32 | version u8 | payload`, little-endian. The checksum covers length,
//! version and payload.

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 8;
/// Bytes of an entry besides its payload.
pub(super) const OVERHEAD_BYTES: usize = HEAD_BYTES + 1;
/// Larger than any payload: a record at the size limit with key and headers.
const MAX_BODY_BYTES: usize = schemas::log::MAX_RECORD_BYTES + 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ParsedFrame<'a> {
    /// A complete entry, with its length in bytes.
    Whole { payload: &'a [u8], bytes: usize },
    /// An incomplete entry: this many bytes, without the end.
    Partial { bytes: usize },
    /// Bytes that aren't an entry.
    Damaged,
}

pub(super) fn encode(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len() + 1).unwrap_or(u32::MAX).to_le_bytes();
    let mut entry = Vec::with_capacity(payload.len() + OVERHEAD_BYTES);
    entry.extend_from_slice(&length);
    entry.extend_from_slice(&[0; 4]);
    entry.push(VERSION);
    entry.extend_from_slice(payload);
    let checksum = checksum(length, &entry[HEAD_BYTES..]);
    entry[4..HEAD_BYTES].copy_from_slice(&checksum.to_le_bytes());
    entry
}

pub(super) fn decode(bytes: &[u8]) -> ParsedFrame<'_> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return ParsedFrame::Partial { bytes: OVERHEAD_BYTES };
    };
    let [a, b, c, d, e, f, g, h] = *head;
    let (length, checksum_found) = ([a, b, c, d], u32::from_le_bytes([e, f, g, h]));
    let body_bytes = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if body_bytes == 0 || body_bytes > MAX_BODY_BYTES {
        return ParsedFrame::Damaged;
    }
    let Some(body) = rest.get(..body_bytes) else { return ParsedFrame::Partial { bytes: HEAD_BYTES + body_bytes } };
    match body {
        [VERSION, payload @ ..] if checksum(length, body) == checksum_found => {
            ParsedFrame::Whole { payload, bytes: HEAD_BYTES + body_bytes }
        }
        _ => ParsedFrame::Damaged,
    }
}

/// Returns the offset of the next complete entry.
pub(super) fn next_whole(bytes: &[u8]) -> Option<usize> {
    // Check the version byte first, so that only one byte in 256 needs the checksum.
    (1..bytes.len().saturating_sub(HEAD_BYTES))
        .find(|&at| bytes[at + HEAD_BYTES] == VERSION && matches!(decode(&bytes[at..]), ParsedFrame::Whole { .. }))
}

/// Returns whether bytes after the last complete entry are an interrupted write: the beginning of an entry, or space that was never
/// written. Such bytes were never acknowledged.
pub(super) fn is_torn(tail: &[u8]) -> bool {
    matches!(decode(tail), ParsedFrame::Partial { .. }) || tail.iter().all(|byte| *byte == 0)
}

fn checksum(length: [u8; 4], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&length), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip() {
        for payload in [&b""[..], b"x", &[0; 100_000]] {
            let entry = encode(payload);
            assert_eq!(decode(&entry), ParsedFrame::Whole { payload, bytes: entry.len() });
            assert_eq!(entry.len(), payload.len() + OVERHEAD_BYTES);
        }
    }
}
