//! Parses timestamps from reporters, servers and log shippers. Reports, log lines and query parameters all use this parser.
//!
//! | form | example | written by |
//! |---|---|---|
//! | RFC 3339 | `2026-11-01T10:00:00.123Z` | most of them |
//! | offset without a colon | `2026-11-01T10:00:00+0000` | Fastly's default format |
//! | no offset, or `UTC` or `GMT` | `2026-11-01 10:00:00` | Fastly, Fluent Bit; UTC is assumed |
//! | seconds, ms, µs or ns since 1970 | `1793527200.123`, `1.7935272e18` | Caddy, Fluent Bit, Akamai, Cloudflare |
//! | common log format | `01/Nov/2026:10:00:00 +0000` | nginx, Apache |
//! | the same with a fraction, without an offset | `01/Nov/2026:10:00:00.123` | HAProxy; UTC is assumed |

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};

/// Accepted formats. Each variant also accepts those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimestampFormat {
    /// Strict RFC 3339.
    Rfc3339,
    /// Also a space instead of the `T`, and an offset without a colon.
    Report,
    /// Also every format of logs; UTC without an offset.
    Log,
}

const MONTHS: [&[u8; 3]; 12] = [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Returns milliseconds since 1970, truncated.
pub fn parse_millis(text: &str, spelling: TimestampFormat) -> Option<i64> {
    let bytes = text.as_bytes();
    match bytes {
        [_, _, _, _, b'-', ..] => timestamp(bytes, spelling).map(|(at_ms, _)| at_ms),
        _ if spelling < TimestampFormat::Log => None,
        [b'[', inner @ .., b']'] => common_log(inner),
        [_, _, b'/', ..] => common_log(bytes),
        _ => since_1970(bytes),
    }
}

/// Parses RFC 3339, truncated to nanoseconds.
pub fn parse_rfc3339(text: &str) -> Option<DateTime<Utc>> {
    let (at_ms, nanos) = timestamp(text.as_bytes(), TimestampFormat::Rfc3339)?;
    Some(DateTime::from_timestamp_millis(at_ms)? + TimeDelta::nanoseconds(nanos))
}

/// Returns milliseconds since 1970 of a UTC date and a time in separate fields: `2026-11-01` and `10:00:00.123`.
pub fn parse_date_and_time(day: &str, time: &str) -> Option<i64> {
    let (days, rest) = date(day.as_bytes())?;
    let ((of_day, _), offset) = time_of_day(time.as_bytes())?;
    (rest.is_empty() && offset.is_empty()).then_some(days * 86_400_000 + of_day)
}

/// Returns milliseconds since 1970, and the remaining nanoseconds.
fn timestamp(bytes: &[u8], spelling: TimestampFormat) -> Option<(i64, i64)> {
    let (days, rest) = date(bytes)?;
    let rest = match rest {
        [b'T' | b't', rest @ ..] => rest,
        [b' ', rest @ ..] if spelling >= TimestampFormat::Report => rest,
        _ => return None,
    };
    let ((of_day, nanos), rest) = time_of_day(rest)?;
    Some((days * 86_400_000 + of_day - offset(rest, spelling)?, nanos))
}

fn common_log(bytes: &[u8]) -> Option<i64> {
    let [d1, d2, b'/', m1, m2, m3, b'/', y1, y2, y3, y4, b':', time @ ..] = bytes else { return None };
    let month = MONTHS.iter().position(|name| **name == [*m1, *m2, *m3])?;
    let day = days(number(&[*y1, *y2, *y3, *y4])?, i64::try_from(month).ok()? + 1, number(&[*d1, *d2])?)?;
    let ((of_day, _), rest) = time_of_day(time)?;
    Some(day * 86_400_000 + of_day - offset(rest, TimestampFormat::Log)?)
}

/// Parses `yyyy-mm-dd` into days since 1970, and returns the rest.
fn date(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (date, rest) = bytes.split_at_checked(10)?;
    let [year @ .., b'-', m1, m2, b'-', d1, d2] = date else { return None };
    Some((days(number(year)?, number(&[*m1, *m2])?, number(&[*d1, *d2])?)?, rest))
}

/// Parses `hh:mm:ss[.fraction]` into milliseconds and remaining nanoseconds, and returns the rest.
fn time_of_day(bytes: &[u8]) -> Option<((i64, i64), &[u8])> {
    let (time, rest) = bytes.split_at_checked(8)?;
    let [h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let whole = ((hour * 60 + minute) * 60 + second) * 1_000;
    let [b'.', fraction @ ..] = rest else { return Some(((whole, 0), rest)) };
    let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = fraction.split_at(digits);
    let nanos = billionths(digits);
    if digits.is_empty() { None } else { Some(((whole + nanos / 1_000_000, nanos % 1_000_000), rest)) }
}

fn offset(bytes: &[u8], spelling: TimestampFormat) -> Option<i64> {
    let bytes = match bytes {
        [b' ', rest @ ..] if spelling >= TimestampFormat::Log => rest,
        bytes => bytes,
    };
    let (sign, hour, minute) = match bytes {
        [b'Z' | b'z'] => return Some(0),
        b"" | b"UTC" | b"GMT" if spelling >= TimestampFormat::Log => return Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => (sign, number(&[*h1, *h2])?, number(&[*m1, *m2])?),
        [sign @ (b'+' | b'-'), h1, h2, m1, m2] if spelling >= TimestampFormat::Report => {
            (sign, number(&[*h1, *h2])?, number(&[*m1, *m2])?)
        }
        _ => return None,
    };
    let offset = (hour * 60 + minute) * 60_000;
    (hour < 24 && minute < 60).then_some(if *sign == b'-' { -offset } else { offset })
}

/// Parses seconds, milliseconds, microseconds or nanoseconds since 1970, depending on the magnitude.
fn since_1970(bytes: &[u8]) -> Option<i64> {
    let exponent = bytes.iter().position(|byte| matches!(byte, b'e' | b'E'));
    let (mantissa, exponent) = bytes.split_at(exponent.unwrap_or(bytes.len()));
    let exponent = match exponent {
        [] => 0,
        [_, b'+', digits @ ..] | [_, digits @ ..] => usize::try_from(number(digits).filter(|exponent| *exponent < 20)?).ok()?,
    };
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let (whole, fraction) = mantissa.split_at(point);
    let fraction = fraction.strip_prefix(b".").unwrap_or(fraction);
    if whole.is_empty() || fraction.iter().any(|byte| !byte.is_ascii_digit()) {
        return None;
    }
    let moved = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(exponent);
    let whole = whole.iter().copied().chain(moved).try_fold(0_i64, |number, byte| {
        if byte.is_ascii_digit() { number.checked_mul(10)?.checked_add(i64::from(byte - b'0')) } else { None }
    })?;
    match whole {
        ..100_000_000_000 => Some(whole * 1_000 + billionths(fraction.get(exponent..).unwrap_or_default()) / 1_000_000),
        100_000_000_000..100_000_000_000_000 => Some(whole),
        100_000_000_000_000..100_000_000_000_000_000 => Some(whole / 1_000),
        _ => Some(whole / 1_000_000),
    }
}

/// Returns the digits of a fraction in billionths.
fn billionths(digits: &[u8]) -> i64 {
    digits.iter().copied().chain(std::iter::repeat(b'0')).take(9).fold(0, |number, byte| number * 10 + i64::from(byte - b'0'))
}

fn number(digits: &[u8]) -> Option<i64> {
    let is_number = !digits.is_empty() && digits.len() <= 4 && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| digits.iter().fold(0, |number, byte| number * 10 + i64::from(byte - b'0')))
}

fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let date = NaiveDate::from_ymd_opt(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?)?;
    Some(date.signed_duration_since(NaiveDate::default()).num_days())
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{FixedOffset, SecondsFormat};
    use proptest::prelude::*;

    const AT_MS: i64 = 1_793_527_200_123;

    #[test]
    fn all_formats_of_an_instant_are_equal() {
        for text in [
            "2026-11-01T10:00:00.123Z",
            "2026-11-01t10:00:00.1239z",
            "2026-11-01T11:00:00.123+01:00",
            "2026-11-01T04:30:00.123456789-05:30",
            "2026-11-01 10:00:00.123+0000",
            "2026-11-01T10:00:00.123+0000",
            "2026-11-01T10:00:00.123",
            "2026-11-01 10:00:00.123",
            "2026-11-01 10:00:00.123 +0000",
            "2026-11-01T10:00:00.123UTC",
            "2026-11-01 10:00:00.123 GMT",
            "1793527200.123",
            "1793527200.1234567",
            "1793527200123",
            "1793527200123456",
            "1793527200123456789",
            "1.793527200123e9",
            "1.793527200123e+12",
            "1.793527200123456E18",
            "01/Nov/2026:10:00:00.123",
            "01/Nov/2026:11:00:00.123 +0100",
        ] {
            assert_eq!(parse_millis(text, TimestampFormat::Log), Some(AT_MS), "{text}");
        }
        for text in ["1793527200", "1793527200.", "1793527200.0", "01/Nov/2026:12:00:00 +0200", "[01/Nov/2026:10:00:00 +0000]"] {
            assert_eq!(parse_millis(text, TimestampFormat::Log), Some(AT_MS - 123), "{text}");
        }
        assert_eq!(parse_date_and_time("2026-11-01", "10:00:00.123"), Some(AT_MS));
        assert_eq!(parse_millis("2024-02-29T23:59:60Z", TimestampFormat::Rfc3339), Some(1_709_251_200_000), "a leap second");
    }

    #[test]
    fn rejects_invalid_instants() {
        for text in [
            "",
            "-",
            ".",
            ".5",
            "1.2.3",
            "1e",
            "1e99",
            "-1",
            "0x10",
            "1_000",
            "NaN",
            "yesterday",
            "2026-11-01",
            "１",
            "99999999999999999999",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-00-10T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:61Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00+00:60",
            "2026-01-01T00:00:00 CET",
            "2026-01-01_00:00:00Z",
            "01/Foo/2026:10:00:00 +0000",
            "32/Nov/2026:10:00:00 +0000",
            "1/Nov/2026:10:00:00 +0000",
            "01/Nov/2026",
            "[",
            "[]",
            "+2026-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_millis(text, TimestampFormat::Log), None, "{text}");
        }
        for (text, spelling) in [
            ("2026-11-01 10:00:00Z", TimestampFormat::Rfc3339),
            ("2026-11-01T10:00:00+0000", TimestampFormat::Rfc3339),
            ("2026-11-01T10:00:00", TimestampFormat::Report),
            ("1793527200", TimestampFormat::Report),
            ("01/Nov/2026:10:00:00 +0000", TimestampFormat::Report),
        ] {
            assert_eq!(parse_millis(text, spelling), None, "{text}");
        }
        for (day, time) in [("2026-11-01", "10:00"), ("2026-11-01Z", "10:00:00"), ("2026-11-01", "10:00:00Z"), ("", "")] {
            assert_eq!(parse_date_and_time(day, time), None, "{day} {time}");
        }
    }

    proptest! {
        #[test]
        fn rfc_3339_matches_chrono(seconds in -62_000_000_000_i64..250_000_000_000, nanos in 0..1_000_000_000_u32, minutes in -1439..1440) {
            let zone = FixedOffset::east_opt(minutes * 60).unwrap();
            let instant = DateTime::from_timestamp(seconds, nanos).unwrap().with_timezone(&zone);
            for format in [SecondsFormat::Secs, SecondsFormat::Millis, SecondsFormat::Nanos] {
                let text = instant.to_rfc3339_opts(format, true);
                let expected = DateTime::parse_from_rfc3339(&text).ok().map(|at| at.to_utc());
                prop_assert_eq!(parse_millis(&text, TimestampFormat::Rfc3339), expected.map(|at| at.timestamp_millis()), "{}", text);
                prop_assert_eq!(parse_rfc3339(&text), expected, "{}", text);
            }
            let written = instant.format("%d/%b/%Y:%H:%M:%S %z").to_string();
            if seconds > 0 {
                prop_assert_eq!(parse_millis(&written, TimestampFormat::Log), Some(seconds * 1_000), "{}", written);
            }
        }

        #[test]
        fn the_parser_never_panics(text in "[0-9TZtz:+\\-. eE/\\[\\]A-Za-zé]{0,40}") {
            let strict = DateTime::parse_from_rfc3339(&text).ok().filter(|_| !text.contains(' ')).map(|at| at.timestamp_millis());
            prop_assert!(strict.is_none() || parse_millis(&text, TimestampFormat::Rfc3339) == strict, "{}", text);
            let _ = parse_millis(&text, TimestampFormat::Log);
            let _ = parse_date_and_time(&text, &text);
        }
    }
}
