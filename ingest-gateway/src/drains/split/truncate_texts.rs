//! Shortens lines that are too long: truncates long quoted strings, and removes members that no format reads. Visitors choose both, and
//! must not be able to make a line disappear.

use super::super::formats::is_read;
use super::Nesting;
use data_encoding::HEXLOWER;
use memchr::{memchr, memchr2, memchr3};
use sha1::{Digest, Sha1};

/// Maximum length of a string before truncation. Stored fields are never longer.
const MAX_TEXT_BYTES: usize = 16 * 1024;
/// Length of a digest in hexadecimal digits.
const DIGEST_BYTES: usize = 40;

/// Returns the maximum text length for this line limit.
pub(super) fn max_text(max_bytes: usize) -> usize {
    MAX_TEXT_BYTES.min(max_bytes / 4)
}

/// The rest of a truncated string, which is replaced with its digest so that different lines stay different.
#[derive(Default)]
pub(super) struct TruncatedText {
    digest: Sha1,
    is_escaped: bool,
}

impl TruncatedText {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    /// Adds bytes up to the end of the text or its line. Returns their number, and whether the end follows.
    pub(super) fn pass(&mut self, chunk: &[u8]) -> (usize, bool) {
        let mut at = usize::from(std::mem::take(&mut self.is_escaped) && chunk.first() != Some(&b'\n'));
        let (passed, has_ended) = loop {
            let Some(found) = chunk.get(at..).and_then(|rest| memchr3(b'"', b'\\', b'\n', rest)) else {
                break (chunk.len(), false);
            };
            at += found;
            match (chunk[at], chunk.get(at + 1)) {
                (b'\\', None) => {
                    self.is_escaped = true;
                    break (chunk.len(), false);
                }
                (b'\\', Some(b'\n')) => break (at + 1, true),
                (b'\\', Some(_)) => at += 2,
                _ => break (at, true),
            }
        };
        self.add(&chunk[..passed]);
        (passed, has_ended)
    }

    /// Returns the replacement for the rest.
    pub(super) fn text(self) -> String {
        HEXLOWER.encode(&self.digest.finalize())
    }
}

/// Truncates each quoted text longer than `max_text`. Returns the shortened line and, if its last text was truncated but hasn't ended, the
/// rest of that text.
pub(super) fn without_long_texts(line: &[u8], max_text: usize) -> (Vec<u8>, Option<TruncatedText>) {
    let (mut short, mut left) = (Vec::new(), line);
    while let Some(quote) = memchr(b'"', left) {
        let (before, text) = left.split_at(quote + 1);
        short.extend_from_slice(before);
        let Extent { end, cut, is_escaped } = Extent::find(text, max_text);
        let whole = &text[..end.unwrap_or(text.len())];
        let is_long = whole.len() > cut + DIGEST_BYTES;
        short.extend_from_slice(if is_long { &whole[..cut] } else { whole });
        let mut rest = TruncatedText { is_escaped, ..TruncatedText::default() };
        rest.add(&whole[cut..]);
        let Some(end) = end else { return (short, is_long.then_some(rest)) };
        if is_long {
            short.extend_from_slice(rest.text().as_bytes());
        }
        short.push(b'"');
        left = &text[end + 1..];
    }
    short.extend_from_slice(left);
    (short, None)
}

/// Removes the members that no format reads, such as most headers, from all objects in a JSON line.
pub(super) fn without_unread_members(line: &[u8]) -> Vec<u8> {
    let (mut short, mut left) = (Vec::new(), line);
    while let Some(quote) = memchr(b'"', left) {
        let (before, text) = left.split_at(quote);
        short.extend_from_slice(before);
        left = text;
        let Some(end) = end_of_text(text) else { break };
        let (name, rest) = text.split_at(end);
        left = after_unread_member(name, rest).unwrap_or_else(|| {
            short.extend_from_slice(name);
            rest
        });
    }
    short.extend_from_slice(left);
    short
}

/// Returns the text after a member and its comma, if the quoted string is a name that no format reads. Members are kept if they are
/// incomplete, contain objects, or are the last in their object.
fn after_unread_member<'a>(name: &[u8], rest: &'a [u8]) -> Option<&'a [u8]> {
    let value = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let name = str::from_utf8(&name[1..name.len() - 1]).ok()?;
    if name.contains('\\') || is_read(name) {
        return None;
    }
    let end = match value {
        [b'"', ..] => end_of_text(value)?,
        [b'[', elements @ ..] if !elements.trim_ascii_start().starts_with(b"{") => Nesting::default().end_of_value(value)?,
        [b'{' | b'[', ..] => return None,
        _ => memchr2(b',', b'}', value)?,
    };
    value[end..].trim_ascii_start().strip_prefix(b",")
}

/// Returns the length of the leading quoted text, including both quotes.
fn end_of_text(text: &[u8]) -> Option<usize> {
    Extent::find(&text[1..], usize::MAX).end.map(|end| end + 2)
}

/// The end of a string, and where the string can be truncated.
struct Extent {
    /// Index of the closing quote.
    end: Option<usize>,
    /// Latest index that isn't within a character or an escape.
    cut: usize,
    /// Whether the last character was a backslash.
    is_escaped: bool,
}

impl Extent {
    fn find(text: &[u8], max_text: usize) -> Self {
        let (mut at, mut cut) = (0, None);
        loop {
            let stop = text.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)).map_or(text.len(), |found| at + found);
            if cut.is_none() && stop > max_text {
                let is_within = |at: &usize| text[*at] & 0xc0 == 0x80;
                cut = (at..=max_text).rev().take(4).find(|at| !is_within(at)).or(Some(max_text));
            }
            if text.get(stop) != Some(&b'\\') {
                return Self { end: (stop < text.len()).then_some(stop), cut: cut.unwrap_or(stop), is_escaped: false };
            }
            if cut.is_none() && stop + escape_bytes(&text[stop + 1..]) > max_text {
                cut = Some(stop);
            }
            if stop + 1 == text.len() {
                return Self { end: None, cut: cut.unwrap_or(stop), is_escaped: true };
            }
            at = stop + 2;
        }
    }
}

/// Returns an escape's length from the text after its backslash. A surrogate pair counts as one escape.
fn escape_bytes(after: &[u8]) -> usize {
    match after {
        [b'u', b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B', ..] => 12,
        [b'u', ..] => 6,
        [b'x', ..] => 4,
        _ => 2,
    }
}
