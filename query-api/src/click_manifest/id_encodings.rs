//! Finds a session's id in text: plain, in upper case, without hyphens, as a URN, in base64, percent-encoded, reversed or
//! JSON-escaped (docs/api/click-tokens.md#get-ctxtoken). Pure.
//!
//! The text is untrusted, so each byte is read a fixed number of times. Only URLs and references are searched, because a manifest's other
//! values come from fixed lists.

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use schemas::ids::SessionId;
use std::borrow::Cow;

/// Number of nested encodings to decode: a percent-encoded JSON escape has two.
const MAX_WRAPPINGS: usize = 2;

/// One session id's encodings, forward and backward.
pub(crate) struct IdEncodings {
    /// Matches lower-case text from which everything except letters and digits was removed.
    digits: AhoCorasick,
    /// Matches unmodified text: base64 at each alignment, and the raw bytes.
    exact: AhoCorasick,
}

impl IdEncodings {
    pub(crate) fn for_session(session: SessionId) -> Self {
        let (hyphenated, simple) = (session.to_string(), session.0.simple().to_string());
        let texts = [&hyphenated, &simple].into_iter().flat_map(|text| [text.clone(), text.to_uppercase()]);
        let encoded: Vec<Vec<u8>> = texts.map(String::into_bytes).chain([session.0.as_bytes().to_vec()]).collect();
        let base64 = encoded.iter().flat_map(|bytes| (0..3).flat_map(|before| in_base64(bytes, before)));
        let exact = base64.map(String::into_bytes).chain([session.0.as_bytes().to_vec()]);
        Self { digits: searcher([simple.into_bytes()].into_iter()), exact: searcher(exact) }
    }

    pub(crate) fn are_in(&self, text: &str) -> bool {
        self.find(text).0
    }

    /// Like [`Self::are_in`], but also returns the number of bytes read.
    fn find(&self, text: &str) -> (bool, usize) {
        let (mut layer, mut looked) = (Cow::Borrowed(text.as_bytes()), 0);
        for _ in 0..=MAX_WRAPPINGS {
            let folded: Vec<u8> = layer.iter().filter(|b| b.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase).collect();
            looked += layer.len() + folded.len();
            if self.exact.is_match(&layer) || self.digits.is_match(&folded) {
                return (true, looked);
            }
            let Some(plain) = unescaped(&layer) else { break };
            layer = Cow::Owned(plain);
        }
        (false, looked)
    }
}

/// Returns the part of the base64 encoding that doesn't depend on neighboring bytes, for `before` bytes in front, in both alphabets.
fn in_base64(bytes: &[u8], before: usize) -> [String; 2] {
    let padded: Vec<u8> = std::iter::repeat_n(0, before).chain(bytes.iter().copied()).collect();
    // The first and last characters also depend on neighboring bytes.
    let (from, until) = ((before * 8).div_ceil(6), padded.len() * 8 / 6);
    [BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD].map(|engine| engine.encode(&padded)[from..until].to_owned())
}

/// Creates a matcher for all encodings, forward and backward. This kind of matcher is the fastest to create, and each one searches the text
/// of only one session.
fn searcher(spellings: impl Iterator<Item = Vec<u8>>) -> AhoCorasick {
    let both = spellings.flat_map(|spelt| [spelt.iter().rev().copied().collect(), spelt]);
    let made = AhoCorasick::builder().kind(Some(AhoCorasickKind::NoncontiguousNFA)).build(both);
    made.expect("a matcher of a few short patterns is always valid")
}

/// Decodes percent-encoded bytes and JSON escapes of ASCII characters, forward and backward. Returns `None` without such bytes. In a URL,
/// the backslash of an escape may be a slash.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.first() {
        let (byte, length) = escape(rest).unwrap_or((*first, 1));
        plain.push(byte);
        rest = &rest[length..];
    }
    (plain.len() < text.len()).then_some(plain)
}

/// Decodes the leading escape and returns its length: `%36`, `\u0036`, `63%`, `6300u\`.
fn escape(text: &[u8]) -> Option<(u8, usize)> {
    match text {
        [b'%', high, low, ..] => Some((byte(*high, *low)?, 3)),
        [b'\\' | b'/', b'u', b'0', b'0', high, low, ..] => Some((byte(*high, *low)?, 6)),
        [low, high, b'0', b'0', b'u', b'\\' | b'/', ..] => Some((byte(*high, *low)?, 6)),
        _ => None,
    }
}

fn byte(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Returns all encodings used in tests.
#[cfg(test)]
pub(crate) fn planted(session: SessionId) -> Vec<(&'static str, String)> {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE};
    let (canonical, simple) = (session.to_string(), session.0.simple().to_string());
    let each = |text: &str, spell: fn(char) -> String| text.chars().map(spell).collect::<String>();
    let reversed = |text: &str| text.chars().rev().collect::<String>();
    let escaped = |text: &str| each(text, |c| format!("\\u{:04x}", u32::from(c)));
    vec![
        ("canonical", canonical.clone()),
        ("upper", canonical.to_uppercase()),
        ("no hyphens", simple.clone()),
        ("no hyphens, upper", simple.to_uppercase()),
        ("urn", session.0.urn().to_string()),
        ("braces", session.0.braced().to_string()),
        ("base64 of bytes", BASE64_STANDARD.encode(session.0.as_bytes())),
        ("base64 of bytes for URLs", BASE64_URL_SAFE.encode(session.0.as_bytes())),
        ("base64 of bytes for URLs, unpadded", BASE64_URL_SAFE_NO_PAD.encode(session.0.as_bytes())),
        ("base64 of the text", BASE64_STANDARD.encode(&canonical)),
        ("base64 of the text for URLs", BASE64_URL_SAFE_NO_PAD.encode(canonical.to_uppercase())),
        ("base64 of more text", BASE64_STANDARD.encode(format!("s={canonical}&x=1"))),
        ("base64 of yet more text", BASE64_STANDARD.encode(format!("id={simple}&x=1"))),
        ("percent-encoded", each(&canonical, |c| format!("%{:02x}", u32::from(c)))),
        ("percent-encoded hyphens", canonical.replace('-', "%2D")),
        ("percent-encoded twice", each(&canonical, |c| format!("%25{:02X}", u32::from(c)))),
        ("percent-encoded bytes", session.0.as_bytes().iter().map(|byte| format!("%{byte:02X}")).collect()),
        ("JSON-escaped", escaped(&canonical)),
        ("JSON-escaped in a URL", escaped(&canonical).replace('\\', "/")),
        ("reversed", reversed(&canonical)),
        ("reversed, no hyphens", reversed(&simple)),
        ("reversed and JSON-escaped", escaped(&reversed(&canonical))),
        ("JSON-escaped and reversed", reversed(&escaped(&canonical))),
        ("other separators", canonical.replace('-', ":")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use service_kit::testing::random_seed;
    use uuid::Uuid;

    #[test]
    fn ct6_finds_session_ids_in_every_encoding() {
        let mut random = StdRng::seed_from_u64(random_seed());
        for _ in 0..300 {
            let session = SessionId(Uuid::from_u128(random.random()));
            let (spellings, other) =
                (IdEncodings::for_session(session), IdEncodings::for_session(SessionId(Uuid::from_u128(random.random()))));
            for (name, spelt) in planted(session) {
                for text in
                    [spelt.clone(), format!("https://a.test/p?x={spelt}&y=1"), format!("turn:{spelt}.3"), format!("é {spelt}")]
                {
                    assert!(spellings.are_in(&text), "{session} {name}: {text}");
                    assert!(!other.are_in(&text), "{session} {name}: {text} contains no other id");
                }
            }
        }
    }

    #[test]
    fn does_not_find_ids_in_ordinary_or_malformed_text() {
        let spellings = IdEncodings::for_session("67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap());
        for text in [
            "",
            "\\",
            "\\u",
            "\\u12",
            "/u00",
            "%",
            "%2",
            "%%%",
            "00u\\",
            "é\\é&é",
            "https://example.com/a?b=c",
            "67e55044-10b1-426f-9247-bb680e5fe0c9",
            "67e55044",
            "sha256:c3d4e5f6a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4",
        ] {
            assert!(!spellings.are_in(text), "{text}");
        }
    }

    #[test]
    fn a7_reads_each_byte_a_fixed_number_of_times() {
        let spellings = IdEncodings::for_session(SessionId(Uuid::from_u128(7 << 100 | 9)));
        let hard: [&dyn Fn(usize) -> String; 7] = [
            &|n| "QUFB".repeat(n / 4),
            &|n| "%25".repeat(n / 3),
            &|n| "%2525".repeat(n / 5),
            &|n| "\\u005c".repeat(n / 6),
            &|n| "/u0025".repeat(n / 6),
            &|n| "a0%\\u/".repeat(n / 6),
            &|n| "é\u{ff11}".repeat(n / 5),
        ];
        for text in hard {
            for n in [7_900, 15_800, 31_600] {
                let text = text(n);
                let (is_found, looked) = spellings.find(&text);
                let bound = 2 * (MAX_WRAPPINGS + 1) * text.len();
                assert!(!is_found && looked <= bound, "{looked} of {bound}: {text:.40}");
            }
        }
    }
}
