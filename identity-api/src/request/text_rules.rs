//! Rules for strings in requests: names, email addresses, prose. Each rule returns the string to store, or its fault.

mod names;

pub(crate) use names::is_unseen;

use super::bodies::fault;
use super::email_address::EmailAddress;
use super::ownable_host::parse_ownable;
use schemas::problem::{Code, Fault};
use schemas::site::Site;
use service_kit::http::ApiError;

const MAX_NAME_BYTES: usize = 200;
pub(crate) const MAX_PROSE_BYTES: usize = 4_000;

/// Collects faults, so that a response reports all of them.
#[derive(Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    pub(crate) fn take<T>(&mut self, checked: Result<T, Fault>) -> Option<T> {
        checked.map_err(|fault| self.0.push(fault)).ok()
    }

    pub(crate) fn refuse(self) -> ApiError {
        ApiError::faults(Code::InvalidRequest, self.0)
    }
}

/// Validates a one-line name that only its own organization sees.
pub(crate) fn label(field: &str, text: Option<String>) -> Result<String, Fault> {
    let text = required(field, text)?;
    let is_blank = text.trim().is_empty();
    if is_blank || text.len() > MAX_NAME_BYTES || text.chars().any(|char| char.is_control() || is_unseen(char)) {
        let rule = "bytes, not be blank, and not contain control or invisible characters";
        return Err(fault(field, format!("{field} must have 1 to {MAX_NAME_BYTES} {rule}")));
    }
    Ok(text)
}

/// Validates a one-line name that others see too.
pub(crate) fn name(field: &str, text: Option<String>) -> Result<String, Fault> {
    let text = label(field, text)?;
    names::fault_of(&text).map_or(Ok(text), |why| Err(fault(field, format!("{field} {why}"))))
}

pub(crate) fn email(field: &str, text: Option<String>) -> Result<EmailAddress, Fault> {
    EmailAddress::parse(&required(field, text)?).map_err(|why| fault(field, format!("{field} {why}")))
}

/// Validates free text with several lines.
pub(crate) fn prose(field: &str, text: Option<String>) -> Result<String, Fault> {
    let text = required(field, text)?;
    let is_odd = |char: char| char.is_control() && !matches!(char, '\n' | '\r' | '\t');
    if text.trim().is_empty() || text.len() > MAX_PROSE_BYTES || text.chars().any(is_odd) {
        return Err(fault(
            field,
            format!(
                "{field} must have 1 to {MAX_PROSE_BYTES} bytes, not be blank, and not contain control characters except tabs and line breaks"
            ),
        ));
    }
    Ok(text)
}

pub(crate) fn domain(field: &str, text: Option<String>) -> Result<Site, Fault> {
    parse_ownable(&required(field, text)?).map_err(|why| fault(field, why))
}

pub(crate) fn one_of<T: std::str::FromStr>(field: &str, text: Option<String>, all: &[&str]) -> Result<T, Fault> {
    let text = required(field, text)?;
    text.parse().map_err(|_| fault(field, format!("{field} must be one of: {}", all.join(", "))))
}

fn required(field: &str, text: Option<String>) -> Result<String, Fault> {
    text.ok_or_else(|| fault(field, format!("{field} is required")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_limits_are_exact_and_only_prose_allows_newlines() {
        let of = |length: usize| Some("x".repeat(length));
        assert!(name("n", of(MAX_NAME_BYTES)).is_ok() && name("n", of(MAX_NAME_BYTES + 1)).is_err());
        assert!(prose("p", of(MAX_PROSE_BYTES)).is_ok() && prose("p", of(MAX_PROSE_BYTES + 1)).is_err());
        assert!(prose("p", Some("a\r\n\tb".to_owned())).is_ok() && name("n", Some("a\nb".to_owned())).is_err());
        for odd in ["a\u{202a}", "\u{202e}a", "\u{2066}", "a\u{2069}b", "a\u{2028}b", "a\u{2029}", "a\u{200b}"] {
            assert!(name("n", Some(odd.to_owned())).is_err() && label("n", Some(odd.to_owned())).is_err(), "{odd:?}");
        }
        assert!(label("n", Some("prod/eu".to_owned())).is_ok() && name("n", Some("prod/eu".to_owned())).is_err());
        for odd in ["", " \t", "a\u{0}", "a\u{1b}[2J", "a\u{9b}"] {
            assert!(name("n", Some(odd.to_owned())).is_err() && prose("p", Some(odd.to_owned())).is_err(), "{odd:?}");
        }
    }
}
