//! `since` and `until`: the period of a read (docs/api/reads.md#since-and-until).
//!
//! Doesn't depend on the current time: a period without `until` has no end.

use super::invalid;
use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};
use schemas::instant;
use service_kit::http::{ApiError, parse_instant};

/// The half-open period [since, until), with both values as the response shows them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Period {
    /// First millisecond in the period.
    pub(crate) from_ms: Option<i64>,
    /// First millisecond after the period.
    pub(crate) before_ms: Option<i64>,
    /// `since`: a date as given, or a time in the format of all responses.
    pub(crate) start: Option<String>,
    /// `until`, in the same format.
    pub(crate) end: Option<String>,
}

impl Period {
    pub(crate) fn parse(since: Option<&str>, until: Option<&str>) -> Result<Self, ApiError> {
        let from = since.map(|text| parse_moment(text, "since")).transpose()?;
        let to = until.map(|text| parse_moment(text, "until")).transpose()?;
        let is_reversed = match (&from, &to) {
            (Some(from), Some(Moment::Instant(to))) => from.start() > *to,
            // A start on the day of `until` is valid, because the period includes that day.
            (Some(from), Some(to @ Moment::Day(_))) => from.start() >= to.end(),
            _ => false,
        };
        if is_reversed {
            return Err(invalid("since must not be after until."));
        }
        Ok(Self {
            start: from.as_ref().map(Moment::format),
            end: to.as_ref().map(Moment::format),
            from_ms: from.map(|from| ceil_ms(from.start())),
            before_ms: to.map(|to| ceil_ms(to.end())),
        })
    }
}

enum Moment {
    Instant(DateTime<Utc>),
    Day(NaiveDate),
}

impl Moment {
    fn start(&self) -> DateTime<Utc> {
        match self {
            Self::Instant(instant) => *instant,
            Self::Day(day) => day.and_time(NaiveTime::MIN).and_utc(),
        }
    }

    /// Returns the end. A date as `until` includes that day.
    fn end(&self) -> DateTime<Utc> {
        match self {
            Self::Instant(instant) => *instant,
            Self::Day(_) => self.start() + TimeDelta::days(1),
        }
    }

    /// Returns a date as given, and for a time the first millisecond in the period.
    fn format(&self) -> String {
        match self {
            Self::Instant(moment) => {
                let whole = DateTime::from_timestamp_millis(ceil_ms(*moment)).unwrap_or(*moment);
                instant::text(whole)
            }
            Self::Day(day) => day.to_string(),
        }
    }
}

fn parse_moment(text: &str, parameter: &str) -> Result<Moment, ApiError> {
    let moment = parse_day(text).map(Moment::Day).or_else(|| parse_instant(text).map(Moment::Instant));
    moment.ok_or_else(|| invalid(format!("{parameter} must be a date (2026-01-31) or an RFC 3339 time with an offset.")))
}

fn parse_day(text: &str) -> Option<NaiveDate> {
    // chrono also accepts signs, spaces and single digits.
    let is_shaped = text.len() == 10
        && text.bytes().enumerate().all(|(at, b)| if matches!(at, 4 | 7) { b == b'-' } else { b.is_ascii_digit() });
    is_shaped.then(|| text.parse().ok())?
}

/// Rounds up to the next millisecond. Events are stored in milliseconds, so this selects the same events.
pub(crate) fn ceil_ms(instant: DateTime<Utc>) -> i64 {
    let has_rest = !instant.timestamp_subsec_nanos().is_multiple_of(1_000_000);
    instant.timestamp_millis() + i64::from(has_rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(since: &str, until: &str) -> Option<Period> {
        let [since, until] = [since, until].map(|text| Some(text).filter(|text| !text.is_empty()));
        Period::parse(since, until).ok()
    }

    fn window(since: &str, until: &str) -> (Option<i64>, Option<i64>) {
        parse(since, until).map(|period| (period.from_ms, period.before_ms)).unwrap()
    }

    #[test]
    fn periods_include_the_until_date() {
        assert_eq!(window("", ""), (None, None));
        assert_eq!(window("1970-01-01", "1970-01-01"), (Some(0), Some(86_400_000)));
        assert_eq!(window("1970-01-01T00:00:01Z", "1970-01-01T00:00:02.5Z"), (Some(1_000), Some(2_500)));
        assert_eq!(window("1970-01-01T05:00:00+05:00", ""), (Some(0), None));
        assert_eq!(window("1970-01-01T05:00:00 05:00", ""), (Some(0), None));
    }

    #[test]
    fn rounds_times_up_to_milliseconds() {
        assert_eq!(window("1970-01-01T00:00:00.0001Z", "1970-01-01T00:00:00.001000001Z"), (Some(1), Some(2)));
        assert_eq!(window("1969-12-31T23:59:59.9991Z", ""), (Some(0), None));
    }

    #[test]
    fn r11_rejects_since_after_until() {
        for (since, until) in [
            ("2026-01-02", "2026-01-01"),
            ("2026-01-02T00:00:00Z", "2026-01-01"),
            ("2026-01-01T00:00:00.001Z", "2026-01-01T00:00:00Z"),
            ("2026-01-02", "2026-01-01T23:59:59Z"),
        ] {
            assert_eq!(parse(since, until), None, "{since} {until}");
        }
        for (since, until) in [("2026-01-01T23:59:59Z", "2026-01-01"), ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z")] {
            assert!(parse(since, until).is_some(), "{since} {until}");
        }
    }

    #[test]
    fn rejects_invalid_dates_and_times() {
        for text in [
            " ",
            "now",
            "2026",
            "2026-1-01",
            "2026-01-1 ",
            "+026-01-01",
            "2026-02-30",
            "20260101",
            "2026-01-01T00:00:00",
            "2026-01-01 00:00:00Z",
            "1767225600",
            "2026-01-01Z",
            "２026-01-01",
            "2026-01-01'--",
            "2026-01-01\0",
        ] {
            assert_eq!(parse(text, ""), None, "{text}");
            assert_eq!(parse("", text), None, "{text}");
        }
    }

    #[test]
    fn returns_dates_as_given_and_times_in_utc() {
        let period = parse("2026-01-01T00:00:00 05:00", "2026-01-31").unwrap();
        assert_eq!(period.start.as_deref(), Some("2025-12-31T19:00:00.000Z"));
        assert_eq!(period.end.as_deref(), Some("2026-01-31"));
        let finer = parse("2026-01-01T00:00:00.0001Z", "").unwrap();
        assert_eq!(finer.start.as_deref(), Some("2026-01-01T00:00:00.001Z"), "the first millisecond that counts");
    }

    #[test]
    fn accepts_the_first_and_last_day_of_the_calendar() {
        assert!(parse("0000-01-01", "9999-12-31").is_some());
    }
}
