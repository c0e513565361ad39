//! `event_data` of an event: what its reporter said beside the members of their own, and who observed it.

pub(crate) mod manifest;
pub(crate) mod shown;

use schemas::event::SourceRole;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The member that this service adds.
const OBSERVERS: &str = "observers";
/// How deep objects and lists of a reporter's own may be nested and are shown; each level is one more pass over them.
const MAX_DEPTH: usize = 4;
/// Longest text that is shown of a click, as JSON.
const MAX_CLICK_VALUE: usize = 66;

/// An object's members, each as it was written.
pub(crate) type Members = BTreeMap<String, Box<RawValue>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The owner of the content, or a partner of it.
    Owner,
    Reporter,
    /// Who issued the click token by which another bound it.
    Issuer,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredEvent<'a> {
    pub(crate) event_type: &'a str,
    /// The object `data`.
    pub(crate) data: &'a str,
    /// Members that this build does not read.
    pub(crate) extra: &'a str,
}

/// Puts together what was stored: `data`, then members unknown to this build that `data` does not name. Of it what is shown.
pub(crate) fn shown(told: StoredEvent<'_>, audience: Audience) -> Members {
    match audience {
        Audience::Reporter => reported(told),
        Audience::Owner => shown_to_owner(reported(told), told.event_type, MAX_DEPTH),
        Audience::Issuer => of_click(told.event_type, told.data),
    }
}

/// The same, and the roles that saw it.
pub(crate) fn compose(told: StoredEvent<'_>, roles: &[u8], audience: Audience) -> Members {
    let mut members = shown(told, audience);
    let names: Vec<&str> = roles.iter().filter_map(|code| SourceRole::from_code(*code)).map(SourceRole::as_str).collect();
    members.insert(OBSERVERS.to_owned(), raw(&names));
    members
}

/// What the issuer of a click token is shown of the `data` of an event that another bound by it: one word, an amount.
pub(crate) fn of_click(event_type: &str, data: &str) -> Members {
    let names = shown::of_click(event_type);
    let is_shown =
        |name: &str, value: &RawValue| names.contains(&name) && is_scalar(value) && value.get().len() <= MAX_CLICK_VALUE;
    parse(data).into_iter().filter(|(name, value)| is_shown(name, value)).collect()
}

fn reported(told: StoredEvent<'_>) -> Members {
    let mut members = parse(told.extra);
    members.extend(parse(told.data));
    members
}

/// Empty text is no object; nothing else is stored that is none.
fn parse(object: &str) -> Members {
    serde_json::from_str(object).unwrap_or_default()
}

/// The members that are on the list, each of a shape that can hold no others.
fn shown_to_owner(members: Members, event_type: &str, depth: usize) -> Members {
    let shown = members.into_iter().filter(|(name, _)| shown::is_shown(event_type, name));
    let shown = shown.filter_map(|(name, value)| {
        let value = match name.as_str() {
            shown::FINGERPRINT => fingerprint(&value)?,
            name if name.contains('.') => own(value, event_type, depth)?,
            _ => Some(value).filter(|value| is_scalar(value))?,
        };
        Some((name, value))
    });
    shown.collect()
}

/// What a reporter says under a name of its own: as it was written, but for members within that are not on the list.
fn own(value: Box<RawValue>, event_type: &str, depth: usize) -> Option<Box<RawValue>> {
    if is_scalar(&value) {
        return Some(value);
    }
    let depth = depth.checked_sub(1)?;
    if let Ok(members) = serde_json::from_str::<Members>(value.get()) {
        return Some(raw(&shown_to_owner(members, event_type, depth)));
    }
    let list = serde_json::from_str::<Vec<Box<RawValue>>>(value.get()).ok()?;
    Some(raw(&list.into_iter().filter_map(|value| own(value, event_type, depth)).collect::<Vec<_>>()))
}

fn fingerprint(value: &RawValue) -> Option<Box<RawValue>> {
    let mut members: Members = serde_json::from_str(value.get()).ok()?;
    members.retain(|name, value| shown::OF_FINGERPRINT.contains(&name.as_str()) && is_scalar(value));
    Some(raw(&members))
}

fn is_scalar(value: &RawValue) -> bool {
    !value.get().starts_with(['{', '['])
}

fn raw<T: serde::Serialize>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("texts and valid values are valid JSON")
}

#[cfg(test)]
mod tests;
