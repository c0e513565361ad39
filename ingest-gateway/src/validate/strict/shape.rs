//! Value types of the public schemas, and rules that assign them to members.

use crate::request::raw_json::{RawObject, as_array, as_str};
use crate::validate::{Faults, Member};
use schemas::instant::{self, TimestampFormat};
use serde_json::value::RawValue;
use url::Url;
use uuid::Uuid;

#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    /// Dotted path in the event or document.
    pub(super) field: &'static str,
    shape: ValueType,
    need: Need,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Required,
    Optional,
    Nullable,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ValueType {
    Text,
    FilledText,
    Flag,
    Integer { least: i64, most: i64 },
    Uuid,
    Instant,
    Uri,
    OneOf(&'static [&'static str]),
    Sha256,
    Country,
    ClickToken,
    Texts,
    Uris,
    Object,
}

pub(super) const COUNT: ValueType = ValueType::Integer { least: 0, most: i64::MAX };
pub(super) const INTEGER: ValueType = ValueType::Integer { least: i64::MIN, most: i64::MAX };

pub(super) const fn required(field: &'static str, shape: ValueType) -> Rule {
    Rule { field, shape, need: Need::Required }
}

/// A member that may be absent, but not null.
pub(super) const fn optional(field: &'static str, shape: ValueType) -> Rule {
    Rule { field, shape, need: Need::Optional }
}

/// A member that may be absent or null.
pub(super) const fn nullable(field: &'static str, shape: ValueType) -> Rule {
    Rule { field, shape, need: Need::Nullable }
}

impl Rule {
    pub(super) fn name(&self) -> &'static str {
        last_part(self.field)
    }
}

pub(crate) fn last_part(field: &'static str) -> &'static str {
    field.rsplit('.').next().unwrap_or(field)
}

pub(super) fn check(object: &RawObject<'_>, rules: &[Rule], faults: &mut Faults) {
    for rule in rules {
        let member = Member(rule.field);
        let written = object.members_as_written().find(|(name, _)| *name == rule.name()).map(|(_, value)| value);
        match (written, rule.need) {
            (None, Need::Required) => faults.add(member, "required", format!("{} is required", rule.field)),
            (None, _) => {}
            (Some(value), Need::Nullable) if value.get() == "null" => {}
            (Some(value), _) => {
                if let Err((code, what)) = rule.shape.admit(value) {
                    faults.add(member, code, format!("{} must be {what}", rule.field));
                }
            }
        }
    }
}

impl ValueType {
    /// Checks a value. The error contains the fault's code and the expected value.
    fn admit(self, value: &RawValue) -> Result<(), (&'static str, String)> {
        let text = as_str(value);
        let text = text.as_deref();
        let (is_admitted, code, what) = match self {
            Self::Flag => (matches!(value.get(), "true" | "false"), "wrong_type", "true or false"),
            Self::Object => (value.get().starts_with('{'), "wrong_type", "an object"),
            Self::Texts => (all(value, |_| true), "wrong_type", "an array of strings"),
            Self::Uris => (all(value, is_uri), "bad_url", "an array of absolute URLs"),
            Self::Integer { least, most } => return admit_integer(value, least, most),
            _ if text.is_none() => (false, "wrong_type", "a string"),
            Self::Text => (true, "", ""),
            Self::FilledText => (text != Some(""), "empty", "not empty"),
            Self::Uuid => (text.is_some_and(is_uuid), "bad_uuid", "a UUID with hyphens"),
            Self::Instant => (
                text.and_then(|text| instant::parse_millis(text, TimestampFormat::Rfc3339)).is_some(),
                "bad_timestamp",
                "an RFC 3339 timestamp with an offset",
            ),
            Self::Uri => (text.is_some_and(is_uri), "bad_url", "an absolute URL"),
            Self::Sha256 => (text.is_some_and(is_sha256), "bad_hash", "sha256: followed by 64 lowercase hexadecimal digits"),
            Self::Country => (text.is_some_and(is_country), "unknown_value", "two uppercase letters"),
            Self::ClickToken => {
                (text.is_some_and(is_click_token), "bad_token", "ct_ or ctx_ followed by 16 to 240 letters, digits, _ or -")
            }
            Self::OneOf(values) => {
                let is_known = text.is_some_and(|text| values.contains(&text));
                return is_known.then_some(()).ok_or_else(|| ("unknown_value", format!("one of: {}", values.join(", "))));
            }
        };
        if is_admitted { Ok(()) } else { Err((code, what.to_owned())) }
    }
}

fn all(value: &RawValue, is_good: impl Fn(&str) -> bool) -> bool {
    as_array(value).is_some_and(|values| values.iter().all(|value| as_str(value).is_some_and(|text| is_good(&text))))
}

/// Accepts integers as defined by JSON Schema, including `10.0`. A number beyond 64 bits is an integer that is out of range.
fn admit_integer(value: &RawValue, least: i64, most: i64) -> Result<(), (&'static str, String)> {
    let written = value.get();
    let whole = written.parse::<i128>().ok().or_else(|| {
        let number: f64 = written.parse().ok().filter(|_| is_number(written))?;
        #[expect(clippy::cast_possible_truncation, reason = "a whole number beyond 128 bits is out of every range here")]
        (number.fract() == 0.0).then_some(number as i128)
    });
    match whole {
        None => Err(("wrong_type", "an integer".to_owned())),
        Some(whole) if (i128::from(least)..=i128::from(most)).contains(&whole) => Ok(()),
        Some(_) => Err(("out_of_range", format!("from {least} to {most}"))),
    }
}

/// `f64::from_str` also accepts `inf` and `nan`, which are not JSON.
fn is_number(written: &str) -> bool {
    written.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && Uuid::try_parse(text).is_ok()
}

fn is_uri(text: &str) -> bool {
    Url::parse(text).is_ok()
}

fn is_sha256(text: &str) -> bool {
    text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

fn is_country(text: &str) -> bool {
    text.len() == 2 && text.bytes().all(|b| b.is_ascii_uppercase())
}

/// Accepts the standard's `ct_…` and this service's `ctx_…`.
fn is_click_token(text: &str) -> bool {
    text.strip_prefix("ctx_").or_else(|| text.strip_prefix("ct_")).is_some_and(|rest| {
        (16..=240).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    })
}
