//! Strict parser for structured fields (RFC 9651).

use crate::Reason;
use sfv::{BareItem, Dictionary, FieldType, ListEntry, Parameters, Parser};

/// Parses a dictionary. Rejects input that isn't canonical apart from whitespace, such as repeated members or parameters (a parser keeps
/// the last one) or unusual base64.
pub(crate) fn dictionary(value: &str) -> Result<Dictionary, Reason> {
    let parsed: Dictionary = Parser::new(value).parse().map_err(|_| Reason::Malformed)?;
    let canonical = parsed.serialize().unwrap_or_default();
    let is_canonical = without_whitespace(value).eq(without_whitespace(&canonical));
    if is_canonical { Ok(parsed) } else { Err(Reason::Malformed) }
}

fn without_whitespace(text: &str) -> impl Iterator<Item = u8> {
    text.bytes().filter(|byte| !matches!(byte, b' ' | b'\t'))
}

/// Serializes a member for the signature base.
pub(crate) fn serialized(entry: &ListEntry) -> String {
    vec![entry.clone()].serialize().unwrap_or_default()
}

/// Returns a string parameter. Fails if it has another type.
pub(crate) fn string<'a>(parameters: &'a Parameters, name: &str) -> Result<Option<&'a str>, Reason> {
    match parameters.get(name) {
        None => Ok(None),
        Some(BareItem::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(Reason::Malformed),
    }
}

pub(crate) fn required_string<'a>(parameters: &'a Parameters, name: &str) -> Result<&'a str, Reason> {
    string(parameters, name)?.ok_or(Reason::Incomplete)
}

pub(crate) fn required_integer(parameters: &Parameters, name: &str) -> Result<i64, Reason> {
    match parameters.get(name) {
        None => Err(Reason::Incomplete),
        Some(BareItem::Integer(number)) => Ok((*number).into()),
        Some(_) => Err(Reason::Malformed),
    }
}
