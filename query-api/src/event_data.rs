//! `event_data` of an event: what its reporter said beside the members of their own, and who observed it.
//!
//! Must not show an owner what belongs to a conversation (threats R17): its level is not stored with a content event,
//! so the strictest holds, at any depth. What the reporter reads back is what it may keep anyway.

use schemas::event::SourceRole;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Conversation members that the level `minimal` withholds (standard, "Turn members by level"), the object of them,
/// and address hashes. Token counts are not among them.
const PRIVATE: &[&str] = &[
    "turn",
    "query_text",
    "response_text",
    "query_intent",
    "topics",
    "response_type",
    "response_mode",
    "model_id",
    "ad_rendered",
    "ip_hash",
];
/// The member that this service adds.
const OBSERVERS: &str = "observers";

/// An object's members, each as it was written.
pub(crate) type Members = BTreeMap<String, Box<RawValue>>;

/// Who reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// The owner of the content, or a partner of it.
    Owner,
    /// Who reported it.
    Reporter,
}

/// Puts together what was stored: `data`, then members unknown to this build that `data` does not name.
pub(crate) fn compose(data: &str, extra: &str, roles: &[u8], audience: Audience) -> Members {
    let mut members = parse(extra);
    members.extend(parse(data));
    if audience == Audience::Owner {
        members = without_private(members);
    }
    let names: Vec<&str> = roles.iter().filter_map(|code| SourceRole::from_code(*code)).map(SourceRole::as_str).collect();
    members.insert(OBSERVERS.to_owned(), raw(&names));
    members
}

/// Empty text is no object; nothing else is stored that is none.
fn parse(object: &str) -> Members {
    serde_json::from_str(object).unwrap_or_default()
}

fn without_private(members: Members) -> Members {
    let shown = members.into_iter().filter(|(name, _)| !is_private(name));
    shown.map(|(name, value)| (name, cleaned(value))).collect()
}

fn is_private(name: &str) -> bool {
    PRIVATE.iter().any(|private| name.eq_ignore_ascii_case(private))
}

/// The value as it was written, when nothing in it is private.
fn cleaned(value: Box<RawValue>) -> Box<RawValue> {
    if let Ok(members) = serde_json::from_str::<Members>(value.get()) {
        return raw(&without_private(members));
    }
    if let Ok(list) = serde_json::from_str::<Vec<Box<RawValue>>>(value.get()) {
        return raw(&list.into_iter().map(cleaned).collect::<Vec<_>>());
    }
    value
}

fn raw<T: serde::Serialize>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("texts and valid values are valid JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(data: &str, extra: &str, audience: Audience) -> String {
        serde_json::to_string(&compose(data, extra, &[1, 2], audience)).unwrap()
    }

    #[test]
    fn what_was_reported_is_shown_as_it_was_written() {
        let data = r#"{"score":1.10,"big":123456789012345678901234567890,"nested":{"a":[1e400,{"b":null}]}}"#;
        let expected = r#"{"big":123456789012345678901234567890,"nested":{"a":[1e400,{"b":null}]},"observers":["agent","edge"],"score":1.10,"x":"ä"}"#;
        for audience in [Audience::Owner, Audience::Reporter] {
            assert_eq!(composed(data, r#"{"x":"ä","score":2}"#, audience), expected);
        }
        assert_eq!(composed("", "", Audience::Owner), r#"{"observers":["agent","edge"]}"#);
    }

    #[test]
    fn nobody_can_name_the_observers_himself() {
        assert_eq!(composed(r#"{"observers":["origin"]}"#, "", Audience::Owner), r#"{"observers":["agent","edge"]}"#);
    }

    #[test]
    fn an_owner_is_shown_nothing_of_a_conversation_at_any_depth_but_token_counts() {
        let data = r#"{"query_text":"q","Query_Text":"q","scope":"full","query_tokens":3,"list":[{"response_text":"r","k":1}],"o":{"quer\u0079_intent":"i"}}"#;
        let extra = r#"{"turn":{"query_text":"q"},"model_id":"m","topics":["t"],"purpose":"p"}"#;
        let expected = r#"{"list":[{"k":1}],"o":{},"observers":["agent","edge"],"purpose":"p","query_tokens":3,"scope":"full"}"#;
        assert_eq!(composed(data, extra, Audience::Owner), expected);
        assert!(composed(data, extra, Audience::Reporter).contains("\"query_text\":\"q\""));
    }
}
