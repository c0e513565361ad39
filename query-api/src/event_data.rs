//! `event_data` in responses: the report's members, and the roles that observed the event.

pub(crate) mod manifest_members;
pub(crate) mod visible_members;

use schemas::event::SourceRole;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A member added by this service.
const OBSERVERS: &str = "observers";
/// Maximum nesting of namespaced members. Deeper values are omitted, because each level costs one more pass.
const MAX_DEPTH: usize = 4;
/// Maximum length of a click's value that its issuer sees, in bytes of JSON.
const MAX_CLICK_VALUE: usize = 66;

/// An object's members, each as reported.
pub(crate) type Members = BTreeMap<String, Box<RawValue>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The content owner or one of its partners.
    Owner,
    Reporter,
    /// The organization that issued the click token.
    Issuer,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredEvent<'a> {
    pub(crate) event_type: &'a str,
    /// The object `data` as JSON.
    pub(crate) data: &'a str,
    /// Unknown members as JSON.
    pub(crate) extra: &'a str,
}

/// Returns the members that this audience may see: `data`, and unknown members that aren't in `data`.
pub(crate) fn visible_to(told: StoredEvent<'_>, audience: Audience) -> Members {
    match audience {
        Audience::Reporter => reported(told),
        Audience::Owner => visible_to_owner(reported(told), told.event_type, MAX_DEPTH),
        Audience::Issuer => visible_to_issuer(told.event_type, told.data),
    }
}

/// Like [`visible_to`], with the roles that observed the event.
pub(crate) fn compose(told: StoredEvent<'_>, roles: &[u8], audience: Audience) -> Members {
    let mut members = visible_to(told, audience);
    let names: Vec<&str> = roles.iter().filter_map(|code| SourceRole::from_code(*code)).map(SourceRole::as_str).collect();
    members.insert(OBSERVERS.to_owned(), raw(&names));
    members
}

/// Returns the members of a click that its token's issuer may see, such as an engagement type or an amount.
pub(crate) fn visible_to_issuer(event_type: &str, data: &str) -> Members {
    let names = visible_members::click_members(event_type);
    let is_shown =
        |name: &str, value: &RawValue| names.contains(&name) && is_scalar(value) && value.get().len() <= MAX_CLICK_VALUE;
    parse(data).into_iter().filter(|(name, value)| is_shown(name, value)).collect()
}

/// Returns the columns of CSV files: one for each member that owners see, and one for all others.
pub(crate) fn columns() -> Vec<&'static str> {
    let listed = visible_members::BY_TYPE.iter().flat_map(|(_, names)| names.iter()).chain(visible_members::FOR_ALL_TYPES);
    let mut names = vec![OBSERVERS];
    for name in listed {
        if !names.contains(name) {
            names.push(name);
        }
    }
    names.push("*");
    names.into_iter().map(|name| &*format!("event_data.{name}").leak()).collect()
}

/// Returns what an export contains: members of `data`, and unknown members beside it. With `is_full`, unknown members of `data` too.
pub(crate) fn exported(told: StoredEvent<'_>, is_full: bool) -> (Members, Members) {
    let data = parse(told.data);
    let unlisted = data.iter().filter(|(name, _)| {
        visible_members::is_exported(told.event_type, name) || (is_full && visible_members::is_by_level(told.event_type, name))
    });
    let unlisted: Members =
        unlisted.filter_map(|(name, value)| Some((name.clone(), without_private(value, MAX_DEPTH)?))).collect();
    let mut shown = visible_to_owner(data, told.event_type, MAX_DEPTH);
    shown.extend(unlisted);
    (shown, visible_to_owner(parse(told.extra), told.event_type, MAX_DEPTH))
}

/// Returns whether [`exported`] depends on `is_full`.
pub(crate) fn has_members_by_level(told: StoredEvent<'_>) -> bool {
    parse(told.data).keys().any(|name| visible_members::is_by_level(told.event_type, name))
}

fn reported(told: StoredEvent<'_>) -> Members {
    let mut members = parse(told.extra);
    members.extend(parse(told.data));
    members
}

/// Parses an object. Without an object, an empty string is stored; everything else is valid JSON.
fn parse(object: &str) -> Members {
    serde_json::from_str(object).unwrap_or_default()
}

/// Returns the listed members whose values can't contain other members.
fn visible_to_owner(members: Members, event_type: &str, depth: usize) -> Members {
    let shown = members.into_iter().filter(|(name, _)| visible_members::is_visible(event_type, name));
    let shown = shown.filter_map(|(name, value)| {
        let value = match name.as_str() {
            visible_members::FINGERPRINT => fingerprint(&value)?,
            name if name.contains('.') => own(value, event_type, depth)?,
            _ => Some(value).filter(|value| is_scalar(value))?,
        };
        Some((name, value))
    });
    shown.collect()
}

/// Returns a namespaced member's value without nested members that aren't listed.
fn own(value: Box<RawValue>, event_type: &str, depth: usize) -> Option<Box<RawValue>> {
    if is_scalar(&value) {
        return Some(value);
    }
    let depth = depth.checked_sub(1)?;
    if let Ok(members) = serde_json::from_str::<Members>(value.get()) {
        return Some(raw(&visible_to_owner(members, event_type, depth)));
    }
    let list = serde_json::from_str::<Vec<Box<RawValue>>>(value.get()).ok()?;
    Some(raw(&list.into_iter().filter_map(|value| own(value, event_type, depth)).collect::<Vec<_>>()))
}

/// Returns a value without nested members that privacy rules name, or that are nested too deeply.
fn without_private(value: &RawValue, depth: usize) -> Option<Box<RawValue>> {
    if is_scalar(value) {
        return Some(value.to_owned());
    }
    let depth = depth.checked_sub(1)?;
    if let Ok(members) = serde_json::from_str::<Members>(value.get()) {
        let kept = members.into_iter().filter(|(name, _)| !visible_members::is_private(name));
        return Some(raw(&kept.filter_map(|(name, value)| Some((name, without_private(&value, depth)?))).collect::<Members>()));
    }
    let list = serde_json::from_str::<Vec<Box<RawValue>>>(value.get()).ok()?;
    Some(raw(&list.iter().filter_map(|value| without_private(value, depth)).collect::<Vec<_>>()))
}

fn fingerprint(value: &RawValue) -> Option<Box<RawValue>> {
    let mut members: Members = serde_json::from_str(value.get()).ok()?;
    members.retain(|name, value| visible_members::FINGERPRINT_MEMBERS.contains(&name.as_str()) && is_scalar(value));
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
