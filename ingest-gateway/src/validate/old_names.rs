//! Maps older emitters' names and values to the standard's (docs/api/events.md#older-names).
//!
//! Members that are not renamed or replaced keep their original text, including the digits of numbers.

use crate::metrics;
use crate::privacy::IP_HASH;
use crate::request::raw_json::{RawObject, as_str};
use schemas::event::EventType;
use serde_json::value::RawValue;

/// The name of `content_presented` before version 1.0.
pub(crate) const DISPLAYED: &str = "content_displayed";
/// The name of `content_telemetry_id` before version 1.0.
pub(crate) const OLD_TELEMETRY_ID: &str = "oa_telemetry_id";

pub(crate) const CITATION_TYPES: &[&str] = &["direct_quote", "paraphrase", "reference", "contradiction", UNCLASSIFIED];
pub(crate) const CITATION_POSITIONS: &[&str] = &["primary", "supporting", "mentioned", UNCLASSIFIED];
const UNCLASSIFIED: &str = "unclassified";
const UNCLASSIFIED_JSON: &str = "\"unclassified\"";

/// Old and current names of `data` members, at most one per type.
const RENAMED: &[(EventType, &str, &str)] = &[
    (EventType::ContentRetrieved, "bot_category", "purpose"),
    (EventType::ContentPresented, "display_type", "presentation_type"),
];

/// Returns the `data` to store: without address hashes and nulls, renamed, with unknown values of closed lists replaced. Unchanged data is
/// returned byte for byte. `None` means that it becomes empty.
pub(crate) fn rewrite_data(data: &RawValue, event_type: &EventType) -> Option<Box<RawValue>> {
    let members = RawObject::parse(data.get()).ok()?;
    let renamed = RENAMED.iter().find(|(on, _, present)| on == event_type && members.get(present).is_none());
    let renamed = renamed.map(|(_, old, present)| (*old, *present));
    let edits: Vec<Edit> = members.members_as_written().map(|(name, value)| edit(name, value, renamed, event_type)).collect();
    if edits.iter().all(|edit| *edit == Edit::Keep) {
        return Some(data.to_owned());
    }
    let kept = members.members_as_written().zip(&edits).filter_map(|((name, value), edit)| match edit {
        Edit::Keep => Some((name, value.get())),
        Edit::Rename(present) => Some((*present, value.get())),
        Edit::Unclassify => Some((name, UNCLASSIFIED_JSON)),
        Edit::Drop => None,
    });
    metrics::unclassified(edits.iter().filter(|edit| **edit == Edit::Unclassify).count());
    RawObject::assemble(kept)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit {
    Keep,
    Rename(&'static str),
    Unclassify,
    Drop,
}

/// `renamed` contains the old and current name of the type's renamed member, if the current one is absent.
fn edit(name: &str, value: &RawValue, renamed: Option<(&str, &'static str)>, event_type: &EventType) -> Edit {
    if name == IP_HASH || value.get() == "null" {
        return Edit::Drop;
    }
    if let Some((_, present)) = renamed.filter(|(old, _)| *old == name) {
        return Edit::Rename(present);
    }
    let closed = match name {
        "citation_type" => CITATION_TYPES,
        "position" => CITATION_POSITIONS,
        _ => return Edit::Keep,
    };
    let is_known = as_str(value).is_some_and(|text| closed.contains(&text.as_ref()));
    if *event_type == EventType::ContentCited && !is_known { Edit::Unclassify } else { Edit::Keep }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(event_type: &EventType, data: &str) -> Option<String> {
        rewrite_data(&RawValue::from_string(data.to_owned()).unwrap(), event_type).map(|kept| kept.get().to_owned())
    }

    #[test]
    fn keeps_unchanged_data_byte_for_byte() {
        for data in [r#"{"a": 1.0,  "b":[null, 18446744073709551616]}"#, "{ }", r#"{"citation_type" : "paraphrase"}"#] {
            assert_eq!(rewritten(&EventType::ContentCited, data).as_deref(), Some(data));
        }
    }

    #[test]
    fn renaming_keeps_other_members_as_written() {
        let data = r#"{"n": 1e400, "ip_hash":"x", "bot_category":"training", "set": null, "deep": {"x": null}}"#;
        let kept = r#"{"n":1e400,"purpose":"training","deep":{"x": null}}"#;
        assert_eq!(rewritten(&EventType::ContentRetrieved, data).as_deref(), Some(kept));
        assert_eq!(rewritten(&EventType::ContentRetrieved, r#"{"ip_hash":"x","ip\u005fhash":"y"}"#), None);
    }

    #[test]
    fn prefers_current_names_to_old_ones() {
        let both = r#"{"bot_category":"a","purpose":"b"}"#;
        assert_eq!(rewritten(&EventType::ContentRetrieved, both).as_deref(), Some(both));
        let unset = r#"{"bot_category":"a","purpose":null}"#;
        assert_eq!(rewritten(&EventType::ContentRetrieved, unset).as_deref(), Some(r#"{"purpose":"a"}"#));
        assert_eq!(
            rewritten(&EventType::ContentEngaged, r#"{"bot_category":"a"}"#).as_deref(),
            Some(r#"{"bot_category":"a"}"#),
            "on other types the name is a custom member"
        );
    }

    #[test]
    fn replaces_unknown_values_on_citations_only() {
        let data = r#"{"citation_type":"summary","position":7,"excerpt_chars":1}"#;
        let kept = r#"{"citation_type":"unclassified","position":"unclassified","excerpt_chars":1}"#;
        assert_eq!(rewritten(&EventType::ContentCited, data).as_deref(), Some(kept));
        assert_eq!(rewritten(&EventType::ContentPresented, data).as_deref(), Some(data));
    }
}
