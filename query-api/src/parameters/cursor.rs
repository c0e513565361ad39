//! The cursor (`after`) of a list of events: it names the last event of a page, and the next page begins after that one. An
//! offset counts from the newest event, which is another one when the next page is asked for.
//!
//! Every report that was accepted after the first page counts as later than those before it, so that it moves nothing that
//! stood in the list then. A report from before that is stored only between two pages looks like any other from
//! before, for no row says when it came to be readable: it can still move its own retrieval, which is then told twice or not
//! at all. Must not promise more than that, and must not be trusted: what a caller makes up is only ever a place to begin at.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use schemas::problem::Code;
use service_kit::http::ApiError;

/// Longer than any id that an event may have.
const MAX_BYTES: usize = 8_192;
/// Of this form; another one will have another number.
const VERSION: &str = "1";
/// The upper bits of an observation's version are the complement of the microsecond of its acceptance.
pub(crate) const VERSION_SHIFT: u32 = 12;

/// An event in the order of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// When it happened.
    pub(crate) at_ms: i64,
    /// Its id, which decides between equal times.
    pub(crate) id: String,
    /// Its key, which decides between equal ids.
    pub(crate) key: u128,
}

/// Where a page begins, and what stood in the list when the first one was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    begun_us: i64,
    /// The last event of the page before; none on the first page.
    pub(crate) after: Option<Position>,
}

impl Cursor {
    /// Goes on after the page that named `after`; begins without one.
    pub(crate) fn parse(after: Option<&str>, now: DateTime<Utc>) -> Result<Self, ApiError> {
        let Some(text) = after else { return Ok(Self { begun_us: now.timestamp_micros(), after: None }) };
        // Other spellings of the same place are none that a page has named.
        let named = |cursor: &Self| cursor.after.as_ref().is_some_and(|last| cursor.next(last) == text);
        Self::read(text).filter(named).ok_or_else(|| {
            let detail = "after must be an x-next-after value from a previous page of this list.";
            ApiError::new(Code::InvalidParameter, detail)
        })
    }

    fn read(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(Some(text).filter(|text| text.len() <= MAX_BYTES)?).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let mut parts = text.splitn(5, '.');
        let mut part = || parts.next();
        if part()? != VERSION {
            return None;
        }
        let begun_us = part()?.parse().ok().filter(|us| (0..1 << 51).contains(us))?;
        let (at_ms, key, id) = (part()?.parse().ok()?, part()?.parse().ok()?, part()?.to_owned());
        // A page names no event without an id, and the store takes no NUL in a parameter.
        let is_id = !id.is_empty() && !id.contains('\0');
        is_id.then_some(Self { begun_us, after: Some(Position { at_ms, id, key }) })
    }

    /// What the page that ends at `last` names for the next one.
    pub(crate) fn next(&self, last: &Position) -> String {
        let Position { at_ms, id, key } = last;
        BASE64_URL_SAFE_NO_PAD.encode(format!("{VERSION}.{}.{at_ms}.{key}.{id}", self.begun_us))
    }

    /// The largest version of an observation that was accepted after the first page.
    pub(crate) fn late_version(&self) -> u64 {
        !((self.begun_us.unsigned_abs() + 1) << VERSION_SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(after: Option<Position>) -> Cursor {
        Cursor { begun_us: 1_790_000_000_000_000, after }
    }

    #[test]
    fn what_a_page_names_is_where_the_next_one_begins() {
        for id in ["citation-1", "with.dots..", "é", "67e55044-10b1-426f-9247-bb680e5fe0c8", &"x".repeat(2_048)] {
            for (at_ms, key) in [(-1, 0), (1_790_000_000_000, u128::MAX)] {
                let place = Position { at_ms, id: id.to_owned(), key };
                let named = cursor(None).next(&place);
                assert!(named.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{named}");
                assert_eq!(Cursor::parse(Some(&named), DateTime::UNIX_EPOCH).unwrap(), cursor(Some(place)));
            }
        }
    }

    #[test]
    fn what_no_page_named_is_refused() {
        let named = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let texts =
            ["1.5.6.7.", "2.5.6.7.id", "1.-5.6.7.id", "1.5.6.-7.id", "1.5.6.id", "1.99999999999999999.6.7.id", "", "1.5.6.7.\0"];
        let spelt_otherwise =
            ["1.+5.6.7.id", "1.05.6.7.id", "1.5.+6.7.id", "1.5.06.7.id", "1.5.-0.7.id", "1.5.6.+7.id", "1.5.6.07.id"];
        let texts = texts.into_iter().chain(spelt_otherwise);
        let made_up = texts.map(named).chain(["".to_owned(), "%".to_owned(), "A".to_owned(), "A".repeat(9_000)]);
        for text in made_up {
            assert!(Cursor::parse(Some(&text), DateTime::UNIX_EPOCH).is_err(), "{text:.80}");
        }
        assert!(Cursor::parse(Some(&named("1.5.6.7.id")), DateTime::UNIX_EPOCH).is_ok());
    }

    #[test]
    fn a_report_is_late_from_the_microsecond_after_the_beginning_on() {
        let version = |accepted_us: u64, digest: u64| !(accepted_us << VERSION_SHIFT | digest);
        let (late, begun) = (cursor(None).late_version(), 1_790_000_000_000_000);
        assert!(version(begun, 0) > late && version(begun, 4_095) > late && version(begun - 1, 7) > late);
        assert!(version(begun + 1, 0) <= late && version(begun + 1, 4_095) <= late && version(begun + 99, 7) <= late);
    }
}
