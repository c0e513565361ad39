//! Finds contradicting members of a JSON line.

use super::{Heading, NoRequest, parse};
use schemas::identity::DrainProvider;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The name of a member, and its source text.
type Member = (String, String);

/// Returns the names of two members that make the line bad; the same name twice if it is repeated.
pub(in super::super) fn contradicting_members(provider: DrainProvider, line: &[u8]) -> Option<[String; 2]> {
    let members = serde_json::Deserializer::from_slice(line).deserialize_map(Members).ok()?;
    let is_contradiction = |one: &str, other: &str| {
        let line = if one.is_empty() { format!("{{{other}}}") } else { format!("{{{one},{other}}}") };
        matches!(parse(provider, &line, &Heading::default()), Err(NoRequest::Bad("repeated_member")))
    };
    members.iter().enumerate().find_map(|(at, (name, member))| {
        if is_contradiction("", member) {
            return Some([name.clone(), name.clone()]);
        }
        let other = members[..at].iter().find(|(_, other)| is_contradiction(other, member));
        other.map(|(other, _)| [other.clone(), name.clone()])
    })
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
