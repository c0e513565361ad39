//! Times on the command line: `7d`, `90m`, a day or a timestamp (docs/cli.md#time-windows).
//!
//! Days and timestamps are passed to the service as typed, so only the service defines what a day is.

use chrono::{DateTime, NaiveDate, SecondsFormat, TimeDelta, Utc};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// This long before now.
    Ago(TimeDelta),
    /// A day or a timestamp, as typed.
    Given(String),
}

impl Moment {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(ago) = ago(text) {
            return Ok(Self::Ago(ago));
        }
        let is_day = NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok();
        if is_day || DateTime::parse_from_rfc3339(text).is_ok() {
            return Ok(Self::Given(text.to_owned()));
        }
        Err("use a time before now (30m, 24h, 7d, 4w), a day (2026-11-01) or an instant (2026-11-01T10:00:00Z)".to_owned())
    }

    /// Returns the query parameter.
    pub(crate) fn at(&self, now: DateTime<Utc>) -> String {
        match self {
            Self::Ago(ago) => (now - *ago).to_rfc3339_opts(SecondsFormat::Millis, true),
            Self::Given(text) => text.clone(),
        }
    }
}

fn ago(text: &str) -> Option<TimeDelta> {
    let unit = text.chars().next_back()?;
    let number: u32 = text.strip_suffix(unit)?.parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 7 * 86_400,
        _ => return None,
    };
    let delta = TimeDelta::try_seconds(i64::from(number) * seconds)?;
    // Longer than any data is old.
    (delta <= TimeDelta::days(100 * 366)).then_some(delta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_count_back_from_now() {
        let now = DateTime::from_timestamp(1_790_000_000, 0).unwrap();
        for (text, seconds) in [("90s", 90), ("30m", 1_800), ("24h", 86_400), ("7d", 604_800), ("4w", 2_419_200), ("0d", 0)] {
            let moment = Moment::parse(text).unwrap().at(now);
            let expected = now - TimeDelta::seconds(seconds);
            assert_eq!(DateTime::parse_from_rfc3339(&moment).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn keeps_days_and_timestamps_as_typed() {
        for text in ["2026-11-01", "2026-11-01T10:00:00Z", "2026-11-01T10:00:00.5+02:00"] {
            assert_eq!(Moment::parse(text), Ok(Moment::Given(text.to_owned())));
        }
        for text in ["", "d", "7", "7y", "-7d", "7 d", "99999999w", "2026-13-01", "yesterday", "７d", "é"] {
            assert!(Moment::parse(text).is_err(), "{text}");
        }
    }
}
