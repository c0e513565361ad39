//! One request as a line of a log tells it.
//!
//! Must not outlive the line: it borrows, and what it holds of a person goes with it.

use chrono::DateTime;
use std::borrow::Cow;
use std::net::IpAddr;

/// Why a line says nothing: a word for the counters.
pub(crate) type Reason = &'static str;

/// What a line may tell. Each provider has other names for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Time,
    /// The day, where the time is that of a day.
    Date,
    Host,
    /// The host where the line does not say which was asked for.
    OtherHost,
    Scheme,
    /// A path, with or without query, or a whole URL.
    Path,
    Query,
    Method,
    UserAgent,
    Status,
    Bytes,
    Address,
    RequestId,
    TelemetryId,
    Cache,
    Asn,
    Country,
    MediaType,
    /// The CDN's verdict.
    Category,
    SignatureAgent,
    /// The request that this one was made for.
    Parent,
    /// Who made the request, where that may be the CDN itself.
    Source,
    /// The headers of the request, as one text.
    Headers,
}

/// How many fields there are.
const FIELDS: usize = Field::Headers as usize + 1;

/// The fields of one line, each as it is written.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a>([Option<Cow<'a, str>>; FIELDS]);

impl<'a> Fields<'a> {
    /// Sets a field; of two values the first counts that says anything.
    pub(crate) fn put(&mut self, field: Field, value: Cow<'a, str>) {
        if self.get(field).is_none() {
            self.0[field as usize] = Some(value);
        }
    }

    /// A field, unless it is empty or `-`.
    pub(crate) fn get(&self, field: Field) -> Option<&str> {
        self.0[field as usize].as_deref().filter(|value| !value.is_empty() && *value != "-")
    }

    /// A field or nothing.
    pub(crate) fn text(&self, field: Field) -> &str {
        self.get(field).unwrap_or_default()
    }

    /// A number; 0 where it is none.
    pub(crate) fn number<N: std::str::FromStr + Default>(&self, field: Field) -> N {
        self.get(field).and_then(|value| value.parse().ok()).unwrap_or_default()
    }

    /// Changes a field that is there.
    pub(crate) fn rewrite(&mut self, field: Field, change: impl FnOnce(&str) -> Option<String>) {
        if let Some(changed) = self.get(field).and_then(change) {
            self.0[field as usize] = Some(Cow::Owned(changed));
        }
    }

    /// The host that was asked for, as far as the line says.
    pub(crate) fn host(&self) -> Option<&str> {
        self.get(Field::Host).or_else(|| self.get(Field::OtherHost))
    }

    /// When it was, in milliseconds UTC.
    pub(crate) fn at_ms(&self) -> Result<i64, Reason> {
        self.get(Field::Time).ok_or("no_time").and_then(|time| instant(time).ok_or("bad_time"))
    }

    /// The address of who asked; for checking it at this moment, and for nothing else.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.get(Field::Address)?.parse().ok()
    }
}

/// An instant as logs write it: RFC 3339, or seconds, milliseconds, microseconds or nanoseconds since 1970, told by their size.
pub(crate) fn instant(text: &str) -> Option<i64> {
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return since_1970(text);
    }
    DateTime::parse_from_rfc3339(text).ok().map(|instant| instant.timestamp_millis())
}

fn since_1970(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let number: i64 = whole.parse().ok()?;
    match whole.len() {
        0..=11 => {
            let thousandths: String = fraction.chars().chain("000".chars()).take(3).collect();
            number.checked_mul(1_000)?.checked_add(thousandths.parse().ok()?)
        }
        12..=14 => Some(number),
        15..=17 => Some(number / 1_000),
        _ => Some(number / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spellings_of_an_instant_are_one() {
        for text in [
            "2026-11-01T10:00:00.123Z",
            "2026-11-01T11:00:00.123+01:00",
            "1793527200.123",
            "1793527200.1234567",
            "1793527200123",
            "1793527200123456",
            "1793527200123456789",
        ] {
            assert_eq!(instant(text), Some(1_793_527_200_123), "{text}");
        }
        assert_eq!(instant("1793527200"), Some(1_793_527_200_000));
        for text in ["", "-", ".", "1.2.3", "yesterday", "2026-11-01", "99999999999999999999", "１"] {
            assert_eq!(instant(text), None, "{text}");
        }
    }
}
