//! Whether a text holds a session's id, however it is spelt (design.md, invariant 6). Pure.
//!
//! Must rather find too much than too little: what is found is withheld, what is missed is told.

mod digits;
mod dress;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use digits::{BASE32, BASE85, NUMERALS, base32, base85, byte_by_byte, hex, number};
use dress::undressed;
use schemas::ids::SessionId;
use std::borrow::Cow;

/// What wraps what: a percent-encoded base64 of a JSON-escaped text is three.
const MAX_WRAPPINGS: u8 = 4;
/// Shorter runs of base64 characters hold no id.
const LEAST_BASE64: usize = 21;
/// A number of base 85 has twenty digits, and of random ids seldom one less.
const LEAST_BASE85: usize = 15;
/// Shorter numbers say nothing.
const LEAST_NUMBER: usize = 20;
/// One session's id in the spellings that are looked for.
pub(crate) struct Spellings {
    /// As text without anything but letters and digits, in lower case.
    texts: AhoCorasick,
    /// As text in which letters of either case and signs are digits.
    exact: AhoCorasick,
    /// As bytes.
    raw: AhoCorasick,
}

impl Spellings {
    pub(crate) fn of(session: SessionId) -> Self {
        let bytes = session.0.into_bytes();
        // Windows writes the first three fields of a UUID the other way round.
        let orders = [bytes, session.0.to_bytes_le()];
        let mut texts: Vec<String> = orders.iter().map(|bytes| hex(bytes)).collect();
        let numbers = NUMERALS.iter().map(|digits| number(session.0.as_u128(), digits).to_lowercase());
        let (high, low) = session.0.as_u64_pair();
        let pair = format!("{high}{low}");
        // A small number is everywhere, and as an id it is nobody's: ids are random.
        texts.extend(numbers.chain([pair]).filter(|number| number.len() >= LEAST_NUMBER));
        texts.extend(orders.iter().flat_map(|bytes| byte_by_byte(bytes)));
        let written = [session.to_string(), session.0.simple().to_string()];
        let written = written.iter().flat_map(|text| [text.clone(), text.to_uppercase()]).map(String::into_bytes);
        let in_fives: Vec<Vec<u8>> = orders.iter().map(|bytes| bytes.to_vec()).chain(written).collect();
        let in_85 = |digits: &&[u8]| in_fives.iter().map(|bytes| base85(bytes, digits)).collect::<Vec<_>>();
        let mut exact: Vec<String> = BASE85.iter().flat_map(in_85).collect();
        exact.extend(Some(number(session.0.as_u128(), BASE85[2])).filter(|number| number.len() >= LEAST_BASE85));
        texts.extend(BASE32.iter().flat_map(|digits| in_fives.iter().map(|bytes| base32(bytes, digits))));
        let raw: Vec<Vec<u8>> = orders.iter().map(|bytes| bytes.to_vec()).collect();
        let reversed = |text: &String| text.chars().rev().collect::<String>();
        let exact: Vec<String> = exact.iter().map(reversed).chain(exact.iter().cloned()).collect();
        let texts: Vec<String> = texts.iter().map(reversed).chain(texts.iter().cloned()).collect();
        let backwards = raw.iter().map(|bytes| bytes.iter().rev().copied().collect());
        let raw: Vec<Vec<u8>> = backwards.chain(raw.iter().cloned()).collect();
        let byte_reversed = raw.iter().map(|bytes| hex(bytes));
        Self { texts: searcher(byte_reversed.chain(texts)), exact: searcher(exact.iter()), raw: searcher(raw.iter()) }
    }

    /// Whether the text holds the id.
    pub(crate) fn are_in(&self, text: &str) -> bool {
        self.in_text(text, MAX_WRAPPINGS)
    }

    fn in_text(&self, text: &str, wrappings: u8) -> bool {
        let folded = undressed(text);
        // As programs write bytes: 0x67, 0xe5.
        let is_marked = || folded.contains("0x") && self.texts.is_match(&folded.replace("0x", ""));
        if self.texts.is_match(&folded) || is_marked() || self.exact.is_match(text) {
            return true;
        }
        let Some(wrappings) = wrappings.checked_sub(1) else { return false };
        let percent_decoded = percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
        (percent_decoded != text.as_bytes() && self.in_bytes(&percent_decoded, wrappings))
            || unescaped(text).is_some_and(|text| self.in_text(&text, wrappings))
            || self.in_base64(text, wrappings)
            || self.in_base64(&text.chars().rev().collect::<String>(), wrappings)
            || hex_runs(&folded).any(|bytes| self.in_bytes(&bytes, wrappings))
    }

    fn in_bytes(&self, bytes: &[u8], wrappings: u8) -> bool {
        self.raw.is_match(bytes) || self.in_text(&String::from_utf8_lossy(bytes), wrappings)
    }

    /// Every run of base64 characters, wherever in it the encoding begins.
    fn in_base64(&self, text: &str, wrappings: u8) -> bool {
        for alphabet in [&STANDARD, &URL_SAFE] {
            let lenient = GeneralPurposeConfig::new()
                .with_decode_padding_mode(DecodePaddingMode::Indifferent)
                .with_decode_allow_trailing_bits(true);
            let engine = GeneralPurpose::new(alphabet, lenient);
            let is_digit = |c: char| c.is_ascii() && alphabet.as_str().contains(c);
            for run in text.split(|c| !is_digit(c)).filter(|run| run.len() >= LEAST_BASE64) {
                for from in 0..4 {
                    let run = &run[from..];
                    // One character over whole groups of four says nothing.
                    let run = if run.len() % 4 == 1 { &run[..run.len() - 1] } else { run };
                    if engine.decode(run).is_ok_and(|bytes| self.in_bytes(&bytes, wrappings)) {
                        return true;
                    }
                }
            }
        }
        false
    }
}

/// Looks for all of them at once. Of the kind that is made fastest: it searches the texts of one session and is gone.
fn searcher(spellings: impl Iterator<Item = impl AsRef<[u8]>>) -> AhoCorasick {
    let made = AhoCorasick::builder().kind(Some(AhoCorasickKind::NoncontiguousNFA)).build(spellings);
    made.expect("a few short texts can be searched for at once")
}

/// The text with its JSON and HTML escapes of characters by number resolved, when it has any.
fn unescaped(text: &str) -> Option<Cow<'_, str>> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '&']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        match escape(rest) {
            Some((character, length)) => {
                plain.push(character);
                rest = &rest[length..];
            }
            None => {
                plain.push_str(&rest[..1]);
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    (plain != text).then_some(Cow::Owned(plain))
}

/// The character that an escape at the start of the text stands for, and how long the escape is.
fn escape(text: &str) -> Option<(char, usize)> {
    let of = |digits: &str, radix: u32| char::from_u32(u32::from_str_radix(digits, radix).ok()?);
    let hex = |from: usize, length: usize| Some((of(text.get(from..from + length)?, 16)?, from + length));
    match text.as_bytes() {
        [b'\\', b'u', ..] => hex(2, 4),
        [b'\\', b'x', ..] => hex(2, 2),
        [b'&', b'#', ..] => {
            let end = text.find(';').filter(|end| *end <= 10)?;
            let number = &text[2..end];
            let character = number.strip_prefix(['x', 'X']).map_or_else(|| of(number, 10), |hex| of(hex, 16))?;
            Some((character, end + 1))
        }
        _ => None,
    }
}

/// What runs of hexadecimal digits that are long enough for an id written as text stand for.
fn hex_runs(text: &str) -> impl Iterator<Item = Vec<u8>> {
    let runs = text.split(|c: char| !c.is_ascii_hexdigit()).filter(|run| run.len() >= 64);
    runs.flat_map(|run| (0..2).map(|from| bytes_of(&run[from..])))
}

fn bytes_of(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks_exact(2);
    pairs.filter_map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
fn circled(c: char) -> String {
    let other = match c {
        '0' => '\u{24ea}',
        '1'..='9' => char::from_u32(u32::from(c) - 0x31 + 0x2460).unwrap(),
        'a'..='z' => char::from_u32(u32::from(c) - 0x61 + 0x24d0).unwrap(),
        _ => c,
    };
    other.to_string()
}

/// Every spelling that tests plant.
#[cfg(test)]
pub(crate) fn planted(session: SessionId) -> Vec<(&'static str, String)> {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
    let (canonical, simple) = (session.to_string(), session.0.simple().to_string());
    let each = |text: &str, spell: fn(char) -> String| text.chars().map(spell).collect::<String>();
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
        ("base64 of base64", BASE64_STANDARD.encode(BASE64_STANDARD.encode(session.0.as_bytes()))),
        ("percent-encoded", each(&canonical, |c| format!("%{:02x}", u32::from(c)))),
        ("percent-encoded hyphens", canonical.replace('-', "%2D")),
        ("percent-encoded twice", each(&canonical, |c| format!("%25{:02X}", u32::from(c)))),
        ("percent-encoded bytes", session.0.as_bytes().iter().map(|byte| format!("%{byte:02X}")).collect()),
        ("JSON-escaped", each(&canonical, |c| format!("\\u{:04x}", u32::from(c)))),
        ("HTML-escaped", each(&canonical, |c| format!("&#{};", u32::from(c)))),
        ("reversed", canonical.chars().rev().collect()),
        ("reversed, no hyphens", simple.chars().rev().collect()),
        ("hexadecimal of the text", hex(canonical.as_bytes())),
        ("a number", session.0.as_u128().to_string()),
        ("Windows order", uuid::Uuid::from_bytes(session.0.to_bytes_le()).to_string()),
        ("other separators", canonical.replace('-', ":")),
        ("full-width", each(&canonical, |c| char::from_u32(u32::from(c) + 0xfee0).unwrap().to_string())),
        ("bytes of a program", session.0.as_bytes().iter().map(|byte| format!("0x{byte:02x}, ")).collect()),
        ("quoted-printable", each(&canonical, |c| format!("={:02X}", u32::from(c)))),
        ("decimal bytes", session.0.as_bytes().map(|byte| byte.to_string()).join(".")),
        ("octal bytes", session.0.as_bytes().map(|byte| format!("\\{byte:03o}")).concat()),
        ("two numbers", format!("{}-{}", session.0.as_u64_pair().0, session.0.as_u64_pair().1)),
        ("binary", format!("{:b}", session.0.as_u128())),
        ("octal", format!("{:o}", session.0.as_u128())),
        ("base 32 of bytes", base32(session.0.as_bytes(), BASE32[0]).to_uppercase()),
        ("base 32 of bytes, extended hex", base32(session.0.as_bytes(), BASE32[1])),
        ("base 32 of bytes, Crockford", base32(session.0.as_bytes(), BASE32[2])),
        ("base 32 of the text", base32(canonical.as_bytes(), BASE32[0])),
        ("base 32 of the number", number(session.0.as_u128(), BASE32[2])),
        ("base 58", number(session.0.as_u128(), NUMERALS[6])),
        ("base 62", number(session.0.as_u128(), NUMERALS[8])),
        ("base 85 of PDF", base85(session.0.as_bytes(), BASE85[0])),
        ("base 85 of ZeroMQ", base85(session.0.as_bytes(), BASE85[1])),
        ("base 85 of Python", base85(session.0.as_bytes(), BASE85[2])),
        ("base 85 of RFC 1924", number(session.0.as_u128(), BASE85[2])),
        ("base 85 of the text", base85(canonical.as_bytes(), BASE85[0])),
        ("circled", each(&canonical, circled)),
        ("Arabic digits", each(&canonical, |c| c.to_digit(10).map_or(c, |d| char::from_u32(0x660 + d).unwrap()).to_string())),
        ("Thai digits", each(&simple, |c| c.to_digit(10).map_or(c, |d| char::from_u32(0xe50 + d).unwrap()).to_string())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng, rngs::StdRng};
    use service_kit::testing::random_seed;
    use uuid::Uuid;

    #[test]
    fn c6_a_session_id_is_found_in_every_spelling_alone_and_within_other_text() {
        let mut random = StdRng::seed_from_u64(random_seed());
        for _ in 0..300 {
            let session = SessionId(Uuid::from_u128(random.random()));
            let (spellings, other) = (Spellings::of(session), Spellings::of(SessionId(Uuid::from_u128(random.random()))));
            for (name, spelt) in planted(session) {
                for text in
                    [spelt.clone(), format!("https://a.test/p?x={spelt}&y=1"), format!("turn:{spelt}.3"), format!("é {spelt}")]
                {
                    assert!(spellings.are_in(&text), "{session} {name}: {text}");
                    assert!(!other.are_in(&text), "{session} {name}: {text} holds no other id");
                }
            }
        }
    }

    #[test]
    fn ordinary_texts_hold_no_id_and_strange_ones_do_no_harm() {
        let spellings = Spellings::of("67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap());
        for text in [
            "",
            "\\",
            "\\u",
            "\\u12",
            "&#",
            "&#;",
            "&#x;",
            "%",
            "%2",
            "é\\é&é",
            "https://example.com/a?b=c",
            "67e55044-10b1-426f-9247-bb680e5fe0c9",
            "67e55044",
            "sha256:c3d4e5f6a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4",
        ] {
            assert!(!spellings.are_in(text), "{text}");
        }
        assert!(!Spellings::of(SessionId(Uuid::from_u128(7))).are_in("https://example.com/7"));
    }
}
