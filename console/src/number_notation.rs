//! How the reader's language writes numbers: the sign of decimals, and what stands between groups of digits.
//!
//! Must change how figures are shown and nothing else: exact values, files and addresses are the same for everybody.

use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use service_kit::http::weighted;
use tokio::task_local;

task_local! {
    /// Of whom the page is made for.
    static NOTATION: Notation;
}

/// A way to write numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notation {
    decimal: char,
    group: char,
    /// Digits from which there are groups.
    grouped_from: usize,
    /// Digits of every group but the last, which has three.
    further: usize,
}

const fn notation(decimal: char, group: char) -> Notation {
    Notation { decimal, group, grouped_from: 4, further: 3 }
}

/// Without a group of one digit.
const fn from_five(notation: Notation) -> Notation {
    Notation { grouped_from: 5, ..notation }
}

const ENGLISH: Notation = notation('.', ',');
const INDIAN: Notation = Notation { further: 2, ..ENGLISH };
const COMMA_AND_POINTS: Notation = notation(',', '.');
const COMMA_AND_SPACES: Notation = notation(',', '\u{a0}');
const COMMA_AND_NARROW_SPACES: Notation = notation(',', '\u{202f}');
const POINT_AND_APOSTROPHES: Notation = notation('.', '\u{2019}');

/// Languages, and countries that write numbers otherwise than others of their language, as Unicode's CLDR has them.
const KNOWN: &[(Notation, &[&str])] = &[
    (
        ENGLISH,
        &[
            "en", "ja", "ko", "zh", "th", "he", "ga", "cy", "ms", "sw", "es-MX", "es-US", "es-419", "es-PE", "es-GT", "es-HN",
            "es-NI", "es-PA", "es-SV", "es-DO", "es-PR",
        ],
    ),
    (INDIAN, &["en-IN", "hi", "ta", "te", "ml", "gu", "pa"]),
    (COMMA_AND_POINTS, &["de", "nl", "id", "tr", "da", "el", "ro", "hr", "sr", "is", "vi", "ca", "gl", "eu", "mk", "pt"]),
    (from_five(COMMA_AND_POINTS), &["es", "it", "sl"]),
    (COMMA_AND_SPACES, &["ru", "uk", "cs", "sk", "fi", "nb", "no", "nn", "sv", "lt", "af", "de-AT", "fr-CA"]),
    (from_five(COMMA_AND_SPACES), &["pl", "bg", "et", "hu", "lv", "pt-PT"]),
    (COMMA_AND_NARROW_SPACES, &["fr", "fr-CH"]),
    (POINT_AND_APOSTROPHES, &["de-CH", "de-LI"]),
];

impl Notation {
    /// Of the language that the browser would rather have than every other one we know; of none the language of the pages.
    fn asked_for(headers: &HeaderMap) -> Self {
        let wanted = weighted(headers, &header::ACCEPT_LANGUAGE).filter(|(_, weight)| *weight > 0);
        let mut ranges: Vec<(&str, u16)> = wanted.collect();
        ranges.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight));
        ranges.into_iter().find_map(|(tag, _)| Self::of(tag)).unwrap_or(ENGLISH)
    }

    fn of(tag: &str) -> Option<Self> {
        let mut parts = tag.split('-');
        let language = parts.next()?;
        let country = parts.find(|part| part.len() == 2 || part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit()));
        let found = |tag: &str| {
            let mut known = KNOWN.iter();
            known.find(|(_, tags)| tags.iter().any(|known| known.eq_ignore_ascii_case(tag))).map(|(notation, _)| *notation)
        };
        country.and_then(|country| found(&format!("{language}-{country}"))).or_else(|| found(language))
    }

    fn current() -> Self {
        NOTATION.try_with(|notation| *notation).unwrap_or(ENGLISH)
    }

    fn write(self, digits: &str) -> String {
        if digits.len() < self.grouped_from {
            return digits.to_owned();
        }
        let mut shown = String::with_capacity(digits.len() * 2);
        for (at, digit) in digits.char_indices() {
            let left = digits.len() - at;
            if at > 0 && left >= 3 && (left - 3).is_multiple_of(self.further) {
                shown.push(self.group);
            }
            shown.push(digit);
        }
        shown
    }
}

/// The layer around every page.
pub(crate) async fn of_reader(request: Request, next: Next) -> Response {
    let notation = Notation::asked_for(request.headers());
    NOTATION.scope(notation, next.run(request)).await
}

/// A number, in groups.
pub(crate) fn grouped(number: u64) -> String {
    Notation::current().write(&number.to_string())
}

/// Digits of any number, in groups; what is not only digits as it is.
pub(crate) fn grouped_digits(number: &str) -> String {
    if number.bytes().all(|byte| byte.is_ascii_digit()) { Notation::current().write(number) } else { number.to_owned() }
}

/// A number with one decimal.
pub(crate) fn with_tenth(whole: u64, tenth: u64) -> String {
    let notation = Notation::current();
    format!("{}{}{tenth}", notation.write(&whole.to_string()), notation.decimal)
}

#[cfg(test)]
pub(crate) fn read_in<T>(languages: &str, shown: impl FnOnce() -> T) -> T {
    let asked = languages.parse().ok().map(|value| (header::ACCEPT_LANGUAGE, value));
    NOTATION.sync_scope(Notation::asked_for(&asked.into_iter().collect()), shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_language_that_is_wanted_most_of_those_that_are_known_decides() {
        let shown = |languages: &str| read_in(languages, || with_tenth(1_234_567, 8));
        for (languages, expected) in [
            ("", "1,234,567.8"),
            ("de", "1.234.567,8"),
            ("DE-de", "1.234.567,8"),
            ("de-CH, de;q=0.9", "1\u{2019}234\u{2019}567.8"),
            ("zh-Hant-TW", "1,234,567.8"),
            ("en-IN", "12,34,567.8"),
            ("xx, *;q=0.5", "1,234,567.8"),
            ("xx-YY, fr;q=0.8, de;q=0.9", "1.234.567,8"),
            ("de;q=0, fr;q=0.1", "1\u{202f}234\u{202f}567,8"),
            ("de;q=much, ru;q=0.001", "1\u{a0}234\u{a0}567,8"),
            (";;;,,,=", "1,234,567.8"),
        ] {
            assert_eq!(shown(languages), expected, "{languages}");
        }
        assert_eq!(read_in("es", || (grouped(1_234), grouped(12_345))), ("1234".to_owned(), "12.345".to_owned()));
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615", "of nobody's page");
        assert_eq!(read_in("de", || grouped_digits("184467440737095516150")), "184.467.440.737.095.516.150");
        assert_eq!(["-1234", "1.5", "1e400"].map(grouped_digits), ["-1234", "1.5", "1e400"]);
    }

    /// As JavaScript writes them, which has Unicode's data; whether four digits have a group changes with its version.
    #[test]
    fn every_known_language_writes_numbers_as_unicode_says() {
        let tags: Vec<&str> = KNOWN.iter().flat_map(|(_, tags)| tags.iter().copied()).collect();
        let script = "for (const tag of process.argv.slice(1)) for (const number of [0.5, 999.1, 12345.6, 1234567.8]) \
            console.log(tag, new Intl.NumberFormat(tag, {minimumFractionDigits: 1, maximumFractionDigits: 1}).format(number));";
        let node = Command::new("node").args(["--eval", script, "--"]).args(&tags).output();
        let node = node.unwrap_or_else(|error| panic!("this test needs Node.js 20 or later: {error}"));
        // Versions differ in which apostrophe it is.
        let written = String::from_utf8(node.stdout).unwrap().replace('\'', "\u{2019}");
        let numbers = [(0, 5), (999, 1), (12_345, 6), (1_234_567, 8)];
        let own = tags
            .iter()
            .flat_map(|tag| numbers.map(|(whole, tenth)| format!("{tag} {}", read_in(tag, || with_tenth(whole, tenth)))));
        let differs: Vec<_> = own.zip(written.lines()).filter(|(own, theirs)| own != theirs).collect();
        assert_eq!(written.lines().count(), tags.len() * numbers.len());
        assert!(differs.is_empty(), "{differs:?}");
    }
}
