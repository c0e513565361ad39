//! Removes members from JSON by name, at any depth, in one pass over the bytes (docs/api/events.md#privacy-at-acceptance).

use crate::request::raw_json::{raw_value, visit};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::ops::Range;

/// Returns the value without withheld members and without objects that become empty; `None` if the value itself becomes empty.
pub(crate) fn without_members(value: &RawValue, is_withheld: impl Fn(&str) -> bool) -> Option<Box<RawValue>> {
    let text = value.get();
    let Removals { cuts, is_emptied } = find(text, is_withheld);
    if is_emptied {
        return None;
    }
    if cuts.is_empty() {
        return Some(value.to_owned());
    }
    let (mut kept, mut from) = (String::with_capacity(text.len()), 0);
    for Range { start, end } in cuts {
        kept.push_str(&text[from..start]);
        from = end;
    }
    kept.push_str(&text[from..]);
    Some(raw_value(kept))
}

pub(crate) fn names_any(value: &RawValue, is_withheld: impl Fn(&str) -> bool) -> bool {
    !find(value.get(), is_withheld).cuts.is_empty()
}

/// Ranges to remove, in order and without overlaps.
struct Removals {
    cuts: Vec<Range<usize>>,
    is_emptied: bool,
}

/// An object or array that is not closed yet.
struct Open {
    is_object: bool,
    /// The next string is a member name.
    awaits_name: bool,
    /// The current member is removed.
    is_withheld: bool,
    kept: usize,
    has_lost: bool,
    /// Offsets of the last comma and of the current member or element.
    comma: usize,
    element: usize,
    /// Number of removed ranges before the current member or element.
    cuts_before: usize,
}

#[derive(Default)]
struct Pruner {
    open: Vec<Open>,
    cuts: Vec<Range<usize>>,
    is_emptied: bool,
}

fn find(text: &str, is_withheld: impl Fn(&str) -> bool) -> Removals {
    visit(text);
    let (bytes, mut walk, mut at) = (text.as_bytes(), Pruner::default(), 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                let end = end_of_string(bytes, at);
                if walk.awaits_name() {
                    walk.name(at, is_withheld(&name_of(&text[at..end])));
                } else {
                    walk.begin(at);
                    walk.end(end, false);
                }
                at = end;
            }
            b'{' | b'[' => {
                walk.begin(at);
                walk.open(*byte == b'{');
                at += 1;
            }
            b'}' | b']' => {
                at += 1;
                walk.close(at);
            }
            b',' => {
                walk.comma(at);
                at += 1;
            }
            b':' | b' ' | b'\t' | b'\n' | b'\r' => at += 1,
            _ => {
                walk.begin(at);
                at = end_of_scalar(bytes, at);
                walk.end(at, false);
            }
        }
    }
    Removals { cuts: walk.cuts, is_emptied: walk.is_emptied }
}

impl Pruner {
    fn awaits_name(&self) -> bool {
        self.open.last().is_some_and(|open| open.awaits_name)
    }

    fn name(&mut self, at: usize, is_withheld: bool) {
        let cuts_before = self.cuts.len();
        if let Some(open) = self.open.last_mut() {
            (open.awaits_name, open.is_withheld) = (false, is_withheld);
            (open.element, open.cuts_before) = (at, cuts_before);
        }
    }

    /// Starts a value; in an array, also an element.
    fn begin(&mut self, at: usize) {
        let cuts_before = self.cuts.len();
        if let Some(open) = self.open.last_mut().filter(|open| !open.is_object) {
            (open.element, open.cuts_before) = (at, cuts_before);
        }
    }

    fn open(&mut self, is_object: bool) {
        self.open.push(Open {
            is_object,
            awaits_name: is_object,
            is_withheld: false,
            kept: 0,
            has_lost: false,
            comma: 0,
            element: 0,
            cuts_before: 0,
        });
    }

    fn close(&mut self, end: usize) {
        let Some(closed) = self.open.pop() else { return };
        self.end(end, closed.is_object && closed.has_lost && closed.kept == 0);
    }

    /// Ends the current value. Removing it also removes the comma before it, or everything before the first kept member.
    fn end(&mut self, end: usize, is_emptied: bool) {
        let Some(open) = self.open.last_mut() else {
            self.is_emptied = is_emptied;
            return;
        };
        if open.is_withheld || is_emptied {
            self.cuts.truncate(open.cuts_before);
            self.cuts.push(if open.kept > 0 { open.comma } else { open.element }..end);
            open.has_lost = true;
        } else {
            open.kept += 1;
        }
        open.is_withheld = false;
    }

    fn comma(&mut self, at: usize) {
        let Some(open) = self.open.last_mut() else { return };
        (open.comma, open.awaits_name) = (at, open.is_object);
        if open.kept == 0
            && open.has_lost
            && let Some(cut) = self.cuts.last_mut()
        {
            cut.end = at + 1;
        }
    }
}

fn end_of_string(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn end_of_scalar(bytes: &[u8], from: usize) -> usize {
    let is_end = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
    bytes[from..].iter().position(is_end).map_or(bytes.len(), |length| from + length)
}

fn name_of(quoted: &str) -> Cow<'_, str> {
    let inner = || Cow::Borrowed(quoted.trim_matches('"'));
    if quoted.contains('\\') { serde_json::from_str(quoted).map_or_else(|_| inner(), Cow::Owned) } else { inner() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pruned(text: &str) -> Option<String> {
        let value = RawValue::from_string(text.to_owned()).unwrap();
        let kept = without_members(&value, |name| name == "x").map(|kept| kept.get().to_owned());
        assert_eq!(names_any(&value, |name| name == "x"), kept.as_deref() != Some(text), "{text}");
        kept
    }

    #[test]
    fn removes_members_with_their_commas() {
        for (text, kept) in [
            (r#"{"x":1,"a":1}"#, r#"{"a":1}"#),
            (r#"{"a":1,"x":{"b":[1,{"x":2}]}}"#, r#"{"a":1}"#),
            (r#"{"a":1, "x" : "x,}" , "b":2}"#, r#"{"a":1 , "b":2}"#),
            (r#"{"x":1,"x":2 , "a":1,"x":3}"#, r#"{ "a":1}"#),
            (r#"{"a":{"x":1},"b":2}"#, r#"{"b":2}"#),
            (r#"{"a":{"b":{"x":1}},"c":[{"x":1},{"x":1,"d":[]},{"x":2}]}"#, r#"{"c":[{"d":[]}]}"#),
            (r#"[1,{"x":1},"x",{"\u0078":1,"a":null}]"#, r#"[1,"x",{"a":null}]"#),
            (r#"{"a":[{"x":1}]}"#, r#"{"a":[]}"#),
        ] {
            assert_eq!(pruned(text).as_deref(), Some(kept), "{text}");
        }
    }

    #[test]
    fn values_without_withheld_members_are_unchanged() {
        for text in [r#"{ "a" : 1.10 , "b": [ null,{ } ], "\u00e9":"\"x\":1" }"#, "{}", "[]", "\"x\"", "1e400", "null"] {
            assert_eq!(pruned(text).as_deref(), Some(text));
        }
    }

    #[test]
    fn removes_emptied_objects() {
        for text in [r#"{"x":1}"#, r#"{"a":{"x":1},"x":2}"#, r#"{ "x" : [ {} ] }"#] {
            assert_eq!(pruned(text), None, "{text}");
        }
    }

    #[test]
    fn deep_nesting_takes_linear_time() {
        let before = crate::request::raw_json::visited_bytes();
        let deep = format!("{}{{\"a\":1,\"x\":1}}{}", "[".repeat(100_000), "]".repeat(100_000));
        let kept = pruned(&deep).unwrap();
        assert!(kept.contains(r#"[{"a":1}]"#));
        assert!(crate::request::raw_json::visited_bytes() - before <= 3 * deep.len() as u64);
    }
}
