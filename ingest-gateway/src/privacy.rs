//! What must not reach the log: turn members above the declared privacy level, and address hashes
//! (decisions.md, "privacy at ingest"; standard, "Turn members by level").
//!
//! Must strip, never refuse: a reporter that sends too much still has its event counted.

use crate::raw::{RawObject, as_array, as_str};
use crate::redact;
use schemas::session::PrivacyLevel;
use serde_json::value::RawValue;

/// The object of conversation members on turn events.
pub(crate) const TURN: &str = "turn";
/// A hash of an address is an address to whoever can enumerate addresses.
pub(crate) const IP_HASH: &str = "ip_hash";
const LEVEL: &str = "privacy_level";
const METADATA: &str = "metadata";

const AT_MINIMAL: &[&str] = &[LEVEL, "query_tokens", "response_tokens", "content_urls_retrieved", "content_urls_cited"];
const AT_INTENT: &[&str] = &["query_intent", "topics", "response_type", "response_mode", "model_id", "ad_rendered"];
const AT_SUMMARY: &[&str] = &["query_text", "response_text"];

/// The level that holds for a turn: the stricter of its own and of the one declared around it, `minimal` when neither
/// is, and when its own is not a level.
pub(crate) fn turn_level(turn: &RawObject<'_>, around: Option<PrivacyLevel>) -> PrivacyLevel {
    let own = turn.get(LEVEL).map(|level| as_str(level).and_then(|name| PrivacyLevel::parse(&name)));
    let own = own.map(|known| known.unwrap_or(PrivacyLevel::Minimal));
    [own, around].into_iter().flatten().min().unwrap_or(PrivacyLevel::Minimal)
}

/// Whether a turn may have the member at `level`.
pub(crate) fn allows(level: PrivacyLevel, name: &str) -> bool {
    AT_MINIMAL.contains(&name)
        || (level >= PrivacyLevel::Intent && AT_INTENT.contains(&name))
        || (level >= PrivacyLevel::Summary && AT_SUMMARY.contains(&name))
        || (level == PrivacyLevel::Full && !is_known(name) && is_kept(name))
}

/// `turn` without what its level withholds; a level that was tightened is written as it holds.
pub(crate) fn strip_turn(turn: &RawValue, around: Option<PrivacyLevel>) -> Option<Box<RawValue>> {
    let members = RawObject::parse(turn.get()).ok()?;
    let level = turn_level(&members, around);
    let allowed = members.members().filter(|(name, _)| allows(level, name) && *name != LEVEL);
    let kept: Vec<_> = allowed.filter_map(|(name, value)| Some((name, without_address_hashes(value)?))).collect();
    let kept = kept.iter().map(|(name, value)| (*name, value.get()));
    let is_declared = members.get(LEVEL).is_some() || around.is_some();
    let level = format!("\"{}\"", level.as_str());
    RawObject::assemble(is_declared.then_some((LEVEL, level.as_str())).into_iter().chain(kept))
}

fn names_address_hash(value: &RawValue) -> bool {
    // An escaped name has a backslash, so this look is enough to leave most values alone.
    if !value.get().contains(IP_HASH) && !value.get().contains('\\') {
        return false;
    }
    match (RawObject::parse(value.get()), as_array(value)) {
        (Ok(object), _) => object.members_as_written().any(|(name, value)| !is_kept(name) || names_address_hash(value)),
        (Err(_), Some(list)) => list.into_iter().any(names_address_hash),
        (Err(_), None) => false,
    }
}

/// Whether a level may withhold a member of this name.
pub(crate) fn is_known(name: &str) -> bool {
    [AT_MINIMAL, AT_INTENT, AT_SUMMARY].iter().any(|list| list.contains(&name))
}

/// Whether a member may be kept at all.
pub(crate) fn is_kept(name: &str) -> bool {
    name != IP_HASH
}

/// Whether a member outside of `turn` may be kept: the conversation's members are no freer there.
pub(crate) fn is_kept_outside_turn(name: &str, around: Option<PrivacyLevel>) -> bool {
    is_kept(name) && (!is_known(name) || allows(around.unwrap_or(PrivacyLevel::Minimal), name))
}

/// An object of somebody's own members, such as a session's or an outcome's, without what a level withholds; also
/// inside the `metadata` that the clients' outcomes carry.
pub(crate) fn strip_members(object: &RawValue, around: Option<PrivacyLevel>) -> Option<Box<RawValue>> {
    let members = RawObject::parse(object.get()).ok()?;
    let kept: Vec<_> = members
        .members()
        .filter(|(name, _)| is_kept_outside_turn(name, around))
        .filter_map(|(name, value)| match name {
            METADATA if RawObject::parse(value.get()).is_ok() => Some((name, strip_members(value, around)?)),
            _ => Some((name, without_address_hashes(value)?)),
        })
        .collect();
    let object = RawObject::assemble(kept.iter().map(|(name, value)| (*name, value.get())))?;
    Some(redact::json_without_click_tokens(object))
}

/// The value without address hashes at any depth; untouched, byte for byte, when it names none. Nesting is bounded by
/// the limits that validation has checked.
pub(crate) fn without_address_hashes(value: &RawValue) -> Option<Box<RawValue>> {
    if !names_address_hash(value) {
        return Some(value.to_owned());
    }
    if let Ok(object) = RawObject::parse(value.get()) {
        let kept: Vec<_> = object
            .members_as_written()
            .filter(|(name, _)| is_kept(name))
            .filter_map(|(name, value)| Some((name, without_address_hashes(value)?)))
            .collect();
        return RawObject::assemble(kept.iter().map(|(name, value)| (*name, value.get())));
    }
    let Some(list) = as_array(value) else { return Some(value.to_owned()) };
    let kept: Vec<_> = list.into_iter().filter_map(without_address_hashes).collect();
    let text = format!("[{}]", kept.iter().map(|value| value.get()).collect::<Vec<_>>().join(","));
    Some(RawValue::from_string(text).expect("an array of valid values is valid JSON"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(level: &str, around: Option<PrivacyLevel>) -> String {
        let turn = format!(
            r#"{{{level}"query_text":"q","response_text":"r","query_intent":"i","topics":["t"],"model_id":"m","query_tokens":1.0,"x":2,"ip_hash":"h","response_tokens":null}}"#
        );
        strip_turn(&RawValue::from_string(turn).unwrap(), around).map(|kept| kept.get().to_owned()).unwrap_or_default()
    }

    fn turn(level: &str) -> String {
        stripped(level, None)
    }

    #[test]
    fn each_level_keeps_what_the_standard_lets_it() {
        assert_eq!(turn(""), r#"{"query_tokens":1.0}"#);
        assert_eq!(turn(r#""privacy_level":"bogus","#), r#"{"privacy_level":"minimal","query_tokens":1.0}"#);
        assert_eq!(turn(r#""privacy_level":7,"#), r#"{"privacy_level":"minimal","query_tokens":1.0}"#);
        let intent = turn(r#""privacy_level":"intent","#);
        assert!(intent.contains("query_intent") && !intent.contains("_text") && !intent.contains("\"x\""));
        let summary = turn(r#""privacy_level":"summary","#);
        assert!(summary.contains("query_text") && !summary.contains("\"x\""));
        let full = turn(r#""privacy_level":"full","#);
        assert!(full.contains("\"x\"") && !full.contains(IP_HASH));
    }

    #[test]
    fn address_hashes_are_found_at_any_depth_and_nothing_else_is_touched() {
        let without = |text: &str| {
            without_address_hashes(&RawValue::from_string(text.to_owned()).unwrap()).map(|kept| kept.get().to_owned())
        };
        let planted = r#"{"a":1.10,"client":{"ip_hash":"h","x":[{"ip\u005fhash":"h","y":2}]}}"#;
        assert_eq!(without(planted).as_deref(), Some(r#"{"a":1.10,"client":{"x":[{"y":2}]}}"#));
        assert_eq!(without(r#"{"a": 1.10, "b": null}"#).as_deref(), Some(r#"{"a": 1.10, "b": null}"#));
        assert_eq!(without(r#"{"s": "\u00e9", "m": {}}"#).as_deref(), Some(r#"{"s": "\u00e9", "m": {}}"#));
        assert_eq!(without(r#"{"ip_hash":"h"}"#), None);
    }

    #[test]
    fn address_hashes_are_found_at_any_depth_of_a_turn_too() {
        let turn = r#"{"privacy_level":"full","response_text":{"client":{"ip_hash":"h","x":1}},"own":[{"ip\u005fhash":"h"}]}"#;
        let kept = strip_turn(&RawValue::from_string(turn.to_owned()).unwrap(), None).unwrap();
        assert_eq!(kept.get(), r#"{"privacy_level":"full","response_text":{"client":{"x":1}},"own":[]}"#);
    }

    #[test]
    fn conversation_members_are_no_freer_outside_of_turn() {
        assert!(!is_kept_outside_turn("query_text", None));
        assert!(!is_kept_outside_turn("query_text", Some(PrivacyLevel::Intent)));
        assert!(is_kept_outside_turn("query_text", Some(PrivacyLevel::Summary)));
        assert!(is_kept_outside_turn("license_ref", None) && !is_kept_outside_turn("ip_hash", Some(PrivacyLevel::Full)));
    }

    #[test]
    fn the_stricter_of_turn_and_envelope_holds_and_is_what_is_written() {
        assert_eq!(
            stripped(r#""privacy_level":"full","#, Some(PrivacyLevel::Minimal)),
            r#"{"privacy_level":"minimal","query_tokens":1.0}"#
        );
        assert!(
            stripped(r#""privacy_level":"minimal","#, Some(PrivacyLevel::Full)).starts_with(r#"{"privacy_level":"minimal","#)
        );
        let declared_around = stripped("", Some(PrivacyLevel::Summary));
        assert!(declared_around.starts_with(r#"{"privacy_level":"summary","#) && declared_around.contains("query_text"));
        assert!(!stripped(r#""privacy_level":null,"#, None).contains("query_text"), "null is absence");
    }
}
