//! Server escapes within JSON: nginx without `escape=json` writes `\xHH` for quotes, backslashes and non-ASCII bytes. Apache also writes
//! `\v`.

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use std::fmt::Write;

/// Converts a line's `\xHH` and `\v` escapes to JSON. Returns `None` if the line has no escapes. A byte that isn't UTF-8 becomes a percent escape.
pub(super) fn with_json_escapes(line: &str) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let (mut rest, mut has_escapes) = (line, false);
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let mut bytes = Vec::new();
        while let Some((byte, length)) = escaped_byte(rest) {
            bytes.push(byte);
            rest = &rest[length..];
        }
        if bytes.is_empty() {
            // Another escape: skip its second character, which may be a backslash.
            let end = rest.char_indices().nth(2).map_or(rest.len(), |(end, _)| end);
            text.push_str(&rest[..end]);
            rest = &rest[end..];
        } else {
            has_escapes = true;
            push(&bytes, &mut text);
        }
    }
    text.push_str(rest);
    has_escapes.then_some(text)
}

/// Returns the byte of a leading `\xHH` or `\v`, and the length of the escape.
fn escaped_byte(text: &str) -> Option<(u8, usize)> {
    if text.starts_with(r"\v") {
        return Some((0x0b, 2));
    }
    let [b'\\', b'x', high, low, ..] = text.as_bytes() else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some((digit(high)? << 4 | digit(low)?, 4))
}

fn push(bytes: &[u8], text: &mut String) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || matches!(character, '"' | '\\') {
                write!(text, "\\u{:04x}", u32::from(character)).expect("writing to a string cannot fail");
            } else {
                text.push(character);
            }
        }
        text.extend(percent_encode(chunk.invalid(), NON_ALPHANUMERIC));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_escaped_bytes_to_json() {
        for (line, expected) in [
            (r#"{"a":"\x22b\x22"}"#, r#"{"a":"\u0022b\u0022"}"#),
            (r#"{"a":"\xC3\xa9"}"#, r#"{"a":"é"}"#),
            (r#"{"a":"\xE9t\xC3"}"#, r#"{"a":"%E9t%C3"}"#),
            (r#"{"a":"\x5C\x22\x00\x7F\x0A"}"#, r#"{"a":"\u005c\u0022\u0000\u007f\u000a"}"#),
            (r#"{"a":"\v\x0B"}"#, r#"{"a":"\u000b\u000b"}"#),
            (r#"\\x22\x41"#, r#"\\x22A"#),
            (r#"\n\"\x41é"#, r#"\n\"Aé"#),
        ] {
            assert_eq!(with_json_escapes(line).as_deref(), Some(expected), "{line}");
        }
        for line in ["", "{}", r"\", r"\x", r"\x2", r"\xZZ", r"\x+1", r"\\x22", "\\é", r"\X41"] {
            assert_eq!(with_json_escapes(line), None, "{line}");
        }
    }
}
