//! What must not reach the log: turn members above the declared privacy level, and address hashes
//! (decisions.md, "privacy at ingest"; standard, "Turn members by level").
//!
//! Must strip, never refuse: a reporter that sends too much still has its event counted.

use crate::raw::{RawObject, as_str};
use serde_json::value::RawValue;

/// The object of conversation members on turn events.
pub(crate) const TURN: &str = "turn";
/// A hash of an address is an address to whoever can enumerate addresses.
const IP_HASH: &str = "ip_hash";

const AT_MINIMAL: &[&str] = &["privacy_level", "query_tokens", "response_tokens", "content_urls_retrieved", "content_urls_cited"];
const AT_INTENT: &[&str] = &["query_intent", "topics", "response_type", "response_mode", "model_id", "ad_rendered"];
const AT_SUMMARY: &[&str] = &["query_text", "response_text"];

/// `turn` without what its own declared level withholds; a missing or unknown level is `minimal`.
pub(crate) fn strip_turn(turn: &RawValue) -> Option<Box<RawValue>> {
    let members = RawObject::parse(turn.get()).ok()?;
    let level = members.get("privacy_level").and_then(as_str);
    let level = level.as_deref().unwrap_or("minimal");
    members.retain(|name| {
        AT_MINIMAL.contains(&name)
            || (matches!(level, "intent" | "summary" | "full") && AT_INTENT.contains(&name))
            || (matches!(level, "summary" | "full") && AT_SUMMARY.contains(&name))
            || (level == "full" && !is_known(name))
    })
}

fn is_known(name: &str) -> bool {
    [AT_MINIMAL, AT_INTENT, AT_SUMMARY].iter().any(|list| list.contains(&name))
}

/// `data` without address hashes; untouched, byte for byte, when it has none.
pub(crate) fn strip_data(data: &RawValue) -> Option<Box<RawValue>> {
    let members = RawObject::parse(data.get()).ok()?;
    if members.members().all(|(name, _)| name != IP_HASH) {
        return Some(data.to_owned());
    }
    members.retain(|name| name != IP_HASH)
}

/// Whether a top-level member may be kept at all.
pub(crate) fn is_kept(name: &str) -> bool {
    name != IP_HASH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(level: &str) -> String {
        let turn = format!(
            r#"{{{level}"query_text":"q","response_text":"r","query_intent":"i","topics":["t"],"model_id":"m","query_tokens":1,"x":2}}"#
        );
        strip_turn(&RawValue::from_string(turn).unwrap()).map(|kept| kept.get().to_owned()).unwrap_or_default()
    }

    #[test]
    fn each_level_keeps_what_the_standard_lets_it() {
        assert_eq!(turn(""), r#"{"query_tokens":1}"#);
        assert_eq!(turn(r#""privacy_level":"bogus","#), r#"{"privacy_level":"bogus","query_tokens":1}"#);
        let intent = turn(r#""privacy_level":"intent","#);
        assert!(intent.contains("query_intent") && !intent.contains("_text") && !intent.contains("\"x\""));
        let summary = turn(r#""privacy_level":"summary","#);
        assert!(summary.contains("query_text") && !summary.contains("\"x\""));
        assert!(turn(r#""privacy_level":"full","#).contains("\"x\""));
    }

    #[test]
    fn address_hashes_are_dropped_and_the_rest_stays_as_written() {
        let strip = |data: &str| strip_data(&RawValue::from_string(data.to_owned()).unwrap()).map(|kept| kept.get().to_owned());
        assert_eq!(strip(r#"{"a": 1.0,  "b":2}"#).as_deref(), Some(r#"{"a": 1.0,  "b":2}"#));
        assert_eq!(strip(r#"{"a": 1.0, "ip_hash":"x"}"#).as_deref(), Some(r#"{"a":1.0}"#));
        assert_eq!(strip(r#"{"ip_hash":"x"}"#), None);
    }
}
