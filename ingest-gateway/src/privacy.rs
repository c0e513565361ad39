//! Removes what must not reach the log: turn members above the declared privacy level, and address hashes
//! (docs/api/events.md#privacy-at-acceptance).
//!
//! It removes members but never rejects an event, because a report with too much data still counts.

pub(crate) mod remove_members;
pub(crate) mod redact_click_tokens;

use crate::request::raw_json::{RawObject, as_str};
use schemas::session::PrivacyLevel;
use schemas::session::conversation::{AT_INTENT, AT_MINIMAL, AT_SUMMARY, LEVEL};
use serde_json::value::RawValue;

pub(crate) const TURN: &str = "turn";
/// Removed, because trying all addresses reverses a hash.
pub(crate) const IP_HASH: &str = "ip_hash";

/// Returns a turn's privacy level: the stricter of its own and the envelope's. Returns `minimal` if neither is declared, or if the turn's
/// own level is invalid.
pub(crate) fn turn_level(turn: &RawObject<'_>, around: Option<PrivacyLevel>) -> PrivacyLevel {
    let own = turn.get(LEVEL).map(|level| as_str(level).and_then(|name| PrivacyLevel::parse(&name)));
    let own = own.map(|known| known.unwrap_or(PrivacyLevel::Minimal));
    [own, around].into_iter().flatten().min().unwrap_or(PrivacyLevel::Minimal)
}

pub(crate) fn allows(level: PrivacyLevel, name: &str) -> bool {
    AT_MINIMAL.contains(&name)
        || (level >= PrivacyLevel::Intent && AT_INTENT.contains(&name))
        || (level >= PrivacyLevel::Summary && AT_SUMMARY.contains(&name))
        || (level == PrivacyLevel::Full && !is_known(name) && is_kept(name))
}

/// Returns `turn` without the members above its level. If the level was tightened, writes the one that applies.
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

fn is_known(name: &str) -> bool {
    [AT_MINIMAL, AT_INTENT, AT_SUMMARY].iter().any(|list| list.contains(&name))
}

pub(crate) fn is_kept(name: &str) -> bool {
    name != IP_HASH
}

/// Members to remove from a value, at any depth.
#[derive(Clone, Copy, Debug)]
enum Withheld {
    Hashes,
    /// Address hashes, and parts of the conversation that the level doesn't permit.
    Texts(PrivacyLevel),
    /// Address hashes, and all conversation members above the level.
    Conversation(PrivacyLevel),
}

impl Withheld {
    fn has(self, name: &str) -> bool {
        match self {
            Self::Hashes => !is_kept(name),
            Self::Texts(level) => !is_kept(name) || (AT_SUMMARY.contains(&name) && !allows(level, name)),
            Self::Conversation(level) => !is_kept(name) || (is_known(name) && name != LEVEL && !allows(level, name)),
        }
    }
}

/// Returns whether a level could remove the member or part of it.
pub(crate) fn is_private(name: &str, value: &RawValue) -> bool {
    is_known(name)
        || (value.get().starts_with(['{', '['])
            && remove_members::names_any(value, |name| Withheld::Conversation(PrivacyLevel::Minimal).has(name)))
}

/// Returns a free-form object, such as a session's or an outcome's, without the members above the level.
pub(crate) fn strip_members(object: &RawValue, around: Option<PrivacyLevel>) -> Option<Box<RawValue>> {
    without(object, Withheld::Conversation(around.unwrap_or(PrivacyLevel::Minimal)))
        .map(redact_click_tokens::json_without_click_tokens)
}

/// Returns the `data` of an event other than a turn. Conversation fields have the same limits there.
pub(crate) fn without_texts(value: &RawValue, around: Option<PrivacyLevel>) -> Option<Box<RawValue>> {
    without(value, Withheld::Texts(around.unwrap_or(PrivacyLevel::Minimal)))
}

pub(crate) fn without_address_hashes(value: &RawValue) -> Option<Box<RawValue>> {
    without(value, Withheld::Hashes)
}

fn without(value: &RawValue, withheld: Withheld) -> Option<Box<RawValue>> {
    remove_members::without_members(value, |name| withheld.has(name))
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
    fn each_level_keeps_the_members_it_allows() {
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
    fn removes_address_hashes_at_any_depth() {
        let turn = r#"{"privacy_level":"full","response_text":{"client":{"ip_hash":"h","x":1}},"own":[{"ip\u005fhash":"h"}]}"#;
        let kept = strip_turn(&RawValue::from_string(turn.to_owned()).unwrap(), None).unwrap();
        assert_eq!(kept.get(), r#"{"privacy_level":"full","response_text":{"client":{"x":1}},"own":[]}"#);
    }

    #[test]
    fn removes_conversation_members_outside_of_turn() {
        let planted = r#"{"query_text":"q","license_ref":"l","own":[{"turn":{"query_intent":"i","x":1}}],"ip_hash":"h"}"#;
        let stripped =
            |level| strip_members(&RawValue::from_string(planted.to_owned()).unwrap(), level).unwrap().get().to_owned();
        assert_eq!(stripped(None), r#"{"license_ref":"l","own":[{"turn":{"x":1}}]}"#);
        assert_eq!(stripped(Some(PrivacyLevel::Intent)), r#"{"license_ref":"l","own":[{"turn":{"query_intent":"i","x":1}}]}"#);
        assert!(stripped(Some(PrivacyLevel::Summary)).starts_with(r#"{"query_text":"q","license_ref""#));
        assert!(!stripped(Some(PrivacyLevel::Full)).contains(IP_HASH));
    }

    #[test]
    fn removes_only_text_from_other_events_data() {
        let data = r#"{"topics": ["t"], "deep":{"response_text":"r","n":1.10}}"#;
        let kept = |level| without_texts(&RawValue::from_string(data.to_owned()).unwrap(), level).unwrap().get().to_owned();
        assert_eq!(kept(Some(PrivacyLevel::Intent)), r#"{"topics": ["t"], "deep":{"n":1.10}}"#);
        assert_eq!(kept(Some(PrivacyLevel::Summary)), data);
    }

    #[test]
    fn applies_and_stores_the_stricter_level() {
        assert_eq!(
            stripped(r#""privacy_level":"full","#, Some(PrivacyLevel::Minimal)),
            r#"{"privacy_level":"minimal","query_tokens":1.0}"#
        );
        assert!(
            stripped(r#""privacy_level":"minimal","#, Some(PrivacyLevel::Full)).starts_with(r#"{"privacy_level":"minimal","#)
        );
        let declared_around = stripped("", Some(PrivacyLevel::Summary));
        assert!(declared_around.starts_with(r#"{"privacy_level":"summary","#) && declared_around.contains("query_text"));
        assert!(!stripped(r#""privacy_level":null,"#, None).contains("query_text"), "null counts as absent");
    }
}
