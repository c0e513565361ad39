//! Finds contradicting members in a JSON line.

use super::{DirectiveState, NoRequest, parse};
use schemas::identity::DrainProvider;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// A member's name and its source text.
type Member = (String, String);

/// Returns the names of two members that make the line bad, or the same name twice if it is repeated.
pub(in super::super) fn contradicting_members(provider: DrainProvider, line: &[u8]) -> Option<[String; 2]> {
    let members = serde_json::Deserializer::from_slice(line).deserialize_map(Members).ok()?;
    let is_bad = |members: &[&Member]| {
        let texts: Vec<&str> = members.iter().map(|(_, text)| text.as_str()).collect();
        let line = format!("{{{}}}", texts.join(","));
        matches!(parse(provider, &line, &DirectiveState::default()), Err(NoRequest::Bad("repeated_member")))
    };
    // Find the first member that makes the line bad. A line stays bad, whatever follows.
    let all: Vec<&Member> = members.iter().collect();
    let lengths: Vec<usize> = (1..=all.len()).collect();
    let good = lengths.partition_point(|length| !is_bad(&all[..*length]));
    let last = *all.get(good)?;
    let other = if is_bad(&[last]) { last } else { all[..good].iter().find(|other| is_bad(&[other, last]))? };
    Some([other.0.clone(), last.0.clone()])
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<Member>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
            let member = format!("{}:{value}", serde_json::Value::from(name.as_str()));
            members.push((name, member));
        }
        Ok(members)
    }
}
