//! The canonical form of JSON (RFC 8785), without fractions, because this crate's documents contain only integers.

use serde_json::Value;
use std::fmt::Write;

/// The largest integer that the canonical form represents exactly.
pub(crate) const MAX_INTEGER: i64 = (1 << 53) - 1;

/// Returns the canonical form, or `None` if a number is a fraction or larger than 2^53 - 1.
pub fn canonical(value: &Value) -> Option<String> {
    let mut text = String::new();
    write_value(value, &mut text)?;
    Some(text)
}

fn write_value(value: &Value, text: &mut String) -> Option<()> {
    match value {
        Value::Number(number) => {
            let integer = number.as_i64().filter(|integer| integer.unsigned_abs() <= MAX_INTEGER.unsigned_abs())?;
            write!(text, "{integer}").ok()
        }
        Value::Array(items) => {
            text.push('[');
            for (n, item) in items.iter().enumerate() {
                text.push_str(if n == 0 { "" } else { "," });
                write_value(item, text)?;
            }
            text.push(']');
            Some(())
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            text.push('{');
            for (n, (name, member)) in members.into_iter().enumerate() {
                write!(text, "{}{}:", if n == 0 { "" } else { "," }, Value::from(name.as_str())).ok()?;
                write_value(member, text)?;
            }
            text.push('}');
            Some(())
        }
        // serde_json escapes strings as RFC 8785 does.
        _ => write!(text, "{value}").ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// RFC 8785, section 3.2.3.
    #[test]
    fn sorts_members_by_utf_16_code_units() {
        let value: Value = serde_json::from_str(
            r#"{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
                "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}"#,
        )
        .unwrap();
        let expected = "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\
            \"\u{f6}\":\"Latin Small Letter O With Diaeresis\",\"\u{20ac}\":\"Euro Sign\",\
            \"\u{1f600}\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}";
        assert_eq!(canonical(&value).as_deref(), Some(expected));
    }

    /// RFC 8785, section 3.2.2, without its fractions.
    #[test]
    fn escapes_strings_like_the_rfc() {
        let value: Value = serde_json::from_str(
            r#"{"string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}"#,
        )
        .unwrap();
        let expected = r#"{"literals":[null,true,false],"string":"€$\u000f\nA'B\"\\\\\"/"}"#;
        assert_eq!(canonical(&value).as_deref(), Some(expected));
    }

    #[test]
    fn rejects_inexact_numbers() {
        assert_eq!(canonical(&json!([MAX_INTEGER, -MAX_INTEGER, 0])).unwrap(), "[9007199254740991,-9007199254740991,0]");
        for inexact in [json!(MAX_INTEGER + 1), json!(-MAX_INTEGER - 1), json!(1.0), json!({"a": [u64::MAX]})] {
            assert_eq!(canonical(&inexact), None, "{inexact}");
        }
    }
}
