//! Parses JSON without interpreting it: members keep their original text.
//!
//! It never rounds a number, merges repeated members, or accepts text that a store would reject (NUL, lone surrogates). Those
//! return 400 (docs/api/http.md#bodies).

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

/// Maximum nesting of a body. Limits of individual members are far lower and have their own faults; deeper bodies are not parsed further.
pub(crate) const MAX_BODY_LEVELS: usize = 64;

thread_local! {
    static VISITED: Cell<u64> = const { Cell::new(0) };
}

/// Returns how many bytes of JSON this thread has scanned, which measures a body's cost without a clock.
pub fn visited_bytes() -> u64 {
    VISITED.get()
}

pub(crate) fn visit(text: &str) {
    VISITED.set(VISITED.get() + text.len() as u64);
}

/// An object's members, in their original order.
#[derive(Debug, Default)]
pub(crate) struct RawObject<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A member name, borrowed unless it contains an escape.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> RawObject<'a> {
    /// Parses an object. The error completes a sentence for the caller, without the parser's position.
    pub(crate) fn parse(text: &'a str) -> Result<Self, String> {
        visit(text);
        serde_json::from_str(text).map_err(|error| clause(&error))
    }

    /// Returns which of the names numbered by `place` (below 128) are repeated, in ascending order.
    pub(crate) fn repeated(&self, place: impl Fn(&str) -> Option<usize>) -> Vec<usize> {
        let (mut once, mut twice) = (0_u128, 0_u128);
        for bit in self.0.iter().filter_map(|(name, _)| place(name)).map(|place| 1 << place) {
            twice |= once & bit;
            once |= bit;
        }
        let repeated = (0..128).filter(|place| twice >> place & 1 == 1);
        if twice == 0 { Vec::new() } else { repeated.collect() }
    }

    /// Returns the first of the names (at most 128) that is repeated.
    pub(crate) fn first_repeated(&self, known: &[&'static str]) -> Option<&'static str> {
        self.repeated(|name| known.iter().position(|known| *known == name)).first().map(|place| known[*place])
    }

    /// Returns a member that is present and not null. Null counts as absent everywhere.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| *value).filter(|value| value.get() != "null")
    }

    pub(crate) fn object(&self, name: &str) -> Option<Self> {
        RawObject::parse(self.get(name)?.get()).ok()
    }

    /// Returns every member that is not null.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().filter(|(_, value)| value.get() != "null").map(|(name, value)| (name.as_ref(), *value))
    }

    /// Returns every member, including null ones.
    pub(crate) fn members_as_written(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), *value))
    }

    /// Returns an object of the members that `keep` accepts, or `None` if all were removed.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) -> Option<Box<RawValue>> {
        Self::assemble(self.members().filter(|(name, _)| keep(name)).map(|(name, value)| (name, value.get())))
    }

    /// Builds an object from names and valid JSON values. Returns `None` if all of them were removed.
    pub(crate) fn assemble<'m>(members: impl IntoIterator<Item = (&'m str, &'m str)>) -> Option<Box<RawValue>> {
        let mut text = String::from("{");
        for (name, value) in members {
            if text.len() > 1 {
                text.push(',');
            }
            text.push_str(&serde_json::to_string(name).expect("a string serializes"));
            text.push(':');
            text.push_str(value);
        }
        text.push('}');
        (text.len() > 2).then(|| raw_value(text))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    members.push((name, value));
                }
                Ok(RawObject(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Returns a string's value, or `None` for other types.
pub(crate) fn as_str(value: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Name<'_>>(value.get()).ok().map(|Name(text)| text)
}

/// Wraps text that was assembled from valid values. Panics on invalid JSON.
pub(crate) fn raw_value(text: String) -> Box<RawValue> {
    visit(&text);
    RawValue::from_string(text).expect("text assembled from valid values is valid JSON")
}

/// Returns an array's elements, or `None` for other types.
pub(crate) fn as_array(value: &RawValue) -> Option<Vec<&RawValue>> {
    visit(value.get());
    serde_json::from_str(value.get()).ok()
}

/// Rejects NUL and lone surrogates in valid JSON. Both can only be written as `\u` escapes, so only these are checked.
pub(crate) fn require_clean_text(text: &str) -> Result<(), String> {
    visit(text);
    let mut rest = text;
    let mut high_surrogate = false;
    while let Some(at) = rest.find('\\') {
        let unit = rest[at..].strip_prefix("\\u").and_then(|digits| u16::from_str_radix(digits.get(..4)?, 16).ok());
        let is_second = matches!(unit, Some(0xDC00..=0xDFFF));
        // A pair consists of two adjacent escapes. Either half anywhere else is lone.
        if is_second != (high_surrogate && at == 0) || (high_surrogate && !is_second) {
            return Err("a string has a lone surrogate".to_owned());
        }
        if unit == Some(0) {
            return Err("a string has a NUL character".to_owned());
        }
        high_surrogate = matches!(unit, Some(0xD800..=0xDBFF));
        rest = &rest[at + if unit.is_some() { 6 } else { 2 }..];
    }
    if high_surrogate { Err("a string has a lone surrogate".to_owned()) } else { Ok(()) }
}

/// Returns the nesting depth of arrays and objects; 0 for a scalar. Meaningless for invalid JSON.
pub(crate) fn depth(text: &str) -> usize {
    visit(text);
    let (mut level, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                level += 1;
                deepest = deepest.max(level);
            }
            b'}' | b']' if !in_string => level = level.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn clause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_original_text() {
        let object = RawObject::parse(r#"{"a": 1.10, "b\u0041": 18446744073709551616, "n": null}"#).unwrap();
        assert_eq!(object.get("a").unwrap().get(), "1.10");
        assert_eq!(object.get("bA").unwrap().get(), "18446744073709551616");
        assert!(object.get("n").is_none(), "null counts as absent");
        assert_eq!(object.retain(|name| name != "a").unwrap().get(), r#"{"bA":18446744073709551616}"#);
        assert!(object.retain(|_| false).is_none());
    }

    #[test]
    fn rejects_nul_and_lone_surrogates_anywhere() {
        for bad in
            [r#"{"a":"\u0000"}"#, r#"{"\u0000":1}"#, r#"{"a":[{"b":"x\u0000"}]}"#, r#"{"a":"\ud800"}"#, r#"{"a":"\udc00\ud800"}"#]
        {
            assert!(require_clean_text(bad).is_err(), "{bad}");
        }
        for good in [
            r#"{"n":1e400,"a":"\u00e9"}"#,
            r#"{"a":"\\u0000"}"#,
            r#"{"a":"\ud83d\ude00"}"#,
            r#"{"a":"\u00e9", "n":[1,-2,0.5,true,null]}"#,
        ] {
            assert!(require_clean_text(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn depth_ignores_brackets_in_strings() {
        assert_eq!(depth("1"), 0);
        assert_eq!(depth(r#"{"a":"[[[\"[["}"#), 1);
        assert_eq!(depth(r#"{"a":[{"b":[]}],"c":{}}"#), 4);
        assert_eq!(depth("]]}[["), 2, "invalid JSON must not panic");
    }
}
