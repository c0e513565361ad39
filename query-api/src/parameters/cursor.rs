//! The cursor (`after`) in an event list: the last event of a page, after which the next page starts. An offset counts from the newest
//! event, so it points to other events when new ones arrive.
//!
//! Lists are ordered by event time and key. Later reports change neither, so paging by cursor returns every event once. The exception is a
//! report that was accepted earlier but stored between two pages: it can move its event, which is then on two pages or missing.
//!
//! A cursor doesn't grant access, so a forged one only changes where the page starts.

use super::invalid;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use service_kit::http::ApiError;

const MAX_BYTES: usize = 128;
const VERSION: &str = "1";

/// An event's position in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// Milliseconds since 1970.
    pub(crate) at_ms: i64,
    /// Orders events in the same millisecond.
    pub(crate) key: u128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The last event of the previous page; `None` on the first page.
    pub(crate) after: Option<Position>,
}

impl Cursor {
    /// Parses `after`. Returns 400 for a value that no page has returned.
    pub(crate) fn parse(after: Option<&str>) -> Result<Self, ApiError> {
        let Some(text) = after else { return Ok(Self::default()) };
        // Reject other encodings of the same position too.
        Self::read(text)
            .filter(|last| last.encode() == text)
            .map(|last| Self { after: Some(last) })
            .ok_or_else(|| invalid("after must be an x-next-after value from a previous page of this list."))
    }

    fn read(text: &str) -> Option<Position> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(Some(text).filter(|text| text.len() <= MAX_BYTES)?).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let mut parts = text.splitn(3, '.');
        let mut part = || parts.next();
        if part()? != VERSION {
            return None;
        }
        Some(Position { at_ms: part()?.parse().ok()?, key: part()?.parse().ok()? })
    }
}

impl Position {
    /// Returns the cursor of the page after this event.
    pub(crate) fn encode(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(format!("{VERSION}.{}.{}", self.at_ms, self.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_starts_after_the_previous_cursor() {
        for (at_ms, key) in [(i64::MIN, 0), (-1, 0), (1_790_000_000_000, u128::MAX)] {
            let last = Position { at_ms, key };
            let text = last.encode();
            assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{text}");
            assert_eq!(Cursor::parse(Some(&text)).unwrap(), Cursor { after: Some(last) });
        }
        assert_eq!(Cursor::parse(None).unwrap(), Cursor { after: None });
    }

    #[test]
    fn rejects_cursors_that_no_page_returned() {
        let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
        let wrong = ["1.6", "1.6.", "2.6.7", "1.6.-7", "1.99999999999999999999.7", "1.6.7.8", "", "1.6.7\0"];
        let other_spellings = ["1.+6.7", "1.06.7", "1.-0.7", "1.6.+7", "1.6.07"];
        let texts = wrong.into_iter().chain(other_spellings).map(encode);
        let made_up = texts.chain(["".to_owned(), "%".to_owned(), "A".to_owned(), "A".repeat(9_000)]);
        for text in made_up {
            assert!(Cursor::parse(Some(&text)).is_err(), "{text:.80}");
        }
        assert!(Cursor::parse(Some(&encode("1.6.7"))).is_ok());
    }
}
