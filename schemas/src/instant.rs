//! Formats timestamps in responses: RFC 3339 in UTC with milliseconds, `2026-11-22T10:00:00.000Z`.
//!
//! Use it with `#[serde(with = "crate::instant")]` or `crate::instant::optional`. Deserializing accepts any RFC 3339.

mod parse;

pub use parse::{TimestampFormat, parse_date_and_time, parse_millis, parse_rfc3339};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Formats an instant, truncated to milliseconds.
pub fn text(instant: DateTime<Utc>) -> String {
    instant.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Returns the first timestamp in the text with an unexpected format. Tests check examples and responses with it.
pub fn find_misformatted(text: &str) -> Option<&str> {
    // The `T` between date and time. It is ASCII, so every cut is at a character boundary.
    text.bytes().enumerate().filter(|(_, byte)| *byte == b'T').find_map(|(at, _)| {
        let written = text.get(at.checked_sub(10)?..)?;
        let is_instant = has_shape(written, "dddd-dd-ddTdd:dd");
        (is_instant && !has_shape(written, "dddd-dd-ddTdd:dd:dd.dddZ")).then_some(written)
    })
}

/// Returns whether the text begins with this shape, where `d` is any digit.
fn has_shape(text: &str, shape: &str) -> bool {
    let is_of = |(byte, of): (u8, u8)| if of == b'd' { byte.is_ascii_digit() } else { byte == of };
    text.len() >= shape.len() && text.bytes().zip(shape.bytes()).all(is_of)
}

pub fn serialize<S: Serializer>(instant: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    text(*instant).serialize(serializer)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<DateTime<Utc>, D::Error> {
    DateTime::deserialize(deserializer)
}

/// Like the parent module, for an optional instant; null if absent.
pub mod optional {
    use chrono::{DateTime, Utc};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(instant: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
        instant.map(super::text).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<DateTime<Utc>>, D::Error> {
        Option::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Told {
        #[serde(with = "crate::instant")]
        at: DateTime<Utc>,
        #[serde(default, with = "crate::instant::optional")]
        until: Option<DateTime<Utc>>,
    }

    #[test]
    fn formats_instants_with_three_fraction_digits() {
        for (micros, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (500_000, "1970-01-01T00:00:00.500Z"),
            (123_456, "1970-01-01T00:00:00.123Z"),
            (999_999, "1970-01-01T00:00:00.999Z"),
            (1_795_341_600_000_000, "2026-11-22T10:00:00.000Z"),
        ] {
            let at = DateTime::from_timestamp_micros(micros).unwrap();
            assert_eq!(serde_json::to_value(Told { at, until: None }).unwrap(), json!({"at": expected, "until": null}));
            assert_eq!(serde_json::to_value(Told { at, until: Some(at) }).unwrap()["until"], expected);
        }
    }

    #[test]
    fn parses_any_rfc_3339_timestamp() {
        let told: Told = serde_json::from_value(json!({"at": "2026-11-22T12:00:00+02:00"})).unwrap();
        assert_eq!((text(told.at).as_str(), told.until), ("2026-11-22T10:00:00.000Z", None));
    }
}
