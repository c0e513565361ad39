//! Replaces click tokens in fields that should not contain any: a referrer, a list of cited URLs, a custom member. A token is a bearer
//! secret, and the log stores only the hashes of secrets (docs/api/events.md#privacy-at-acceptance).

use crate::request::raw_json::{raw_value, visit};
use schemas::log::LogEvent;
use schemas::secrets::click_tokens_in;
use schemas::session::SessionFacts;
use serde_json::value::RawValue;
use std::ops::Range;

const WITHHELD: &str = "ctx_withheld";

/// Replaces every click token in the text, including percent-encoded ones.
pub(crate) fn without_click_tokens(text: String) -> String {
    withheld(&text, false).unwrap_or(text)
}

/// Replaces every click token in the JSON's strings, including ones written with escapes.
pub(crate) fn json_without_click_tokens(value: Box<RawValue>) -> Box<RawValue> {
    let Some(text) = withheld(value.get(), true) else { return value };
    // Only characters within strings were replaced.
    raw_value(text)
}

/// Replaces click tokens in every text of an event, except in its objects. Runs after the key is computed, because a secret in an
/// id still distinguishes events.
pub(crate) fn withhold_from(event: &mut LogEvent) {
    let ids = [&mut event.id, &mut event.content_id, &mut event.content_telemetry_id, &mut event.turn_id, &mut event.output_id];
    for text in ids.into_iter().chain([&mut event.agent_id, &mut event.content_url]).flatten() {
        withhold(text);
    }
    withhold(&mut event.event_type);
}

/// Replaces click tokens in every text of a session, except in its objects.
pub(crate) fn withhold_from_session(facts: &mut SessionFacts) {
    let texts = [&mut facts.agent_id, &mut facts.manifest_ref, &mut facts.content_scope, &mut facts.external_session_id];
    texts.into_iter().flatten().for_each(withhold);
}

fn withhold(text: &mut String) {
    if let Some(kept) = withheld(text, false) {
        *text = kept;
    }
}

/// Returns the text without tokens, or `None` if it contains no token.
fn withheld(text: &str, is_json: bool) -> Option<String> {
    visit(text);
    let without_plain = click_tokens_in(text).next().is_some().then(|| replaced(text));
    without_spelled(without_plain.as_deref().unwrap_or(text), is_json).or(without_plain)
}

/// Returns the text without percent-encoded or escaped tokens, or `None` if it has no tokens.
fn without_spelled(text: &str, is_json: bool) -> Option<String> {
    let may_be_spelled = text.contains('%') || (is_json && text.contains("\\u00"));
    visit(text);
    let plain = may_be_spelled.then(|| spelled_out(text, is_json))?;
    click_tokens_in(&plain).next().is_some().then(|| replaced(&plain))
}

fn replaced(text: &str) -> String {
    let (mut kept, mut from) = (String::with_capacity(text.len()), 0);
    for Range { start, end } in click_tokens_in(text) {
        kept.push_str(&text[from..start]);
        kept.push_str(WITHHELD);
        from = end;
    }
    kept.push_str(&text[from..]);
    kept
}

/// Decodes percent-encoded and escaped characters that can be part of a token. The text's meaning doesn't change.
fn spelled_out(text: &str, is_json: bool) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(['%', '\\']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let escape = [("%", 2), ("\\u00", 2)].into_iter().find_map(|(mark, digits)| {
            let code = rest.strip_prefix(mark)?.get(..digits)?;
            let character = char::from(u8::from_str_radix(code, 16).ok()?);
            let is_ours = (character.is_ascii_alphanumeric() || character == '_') && (is_json || mark == "%");
            is_ours.then_some((character, mark.len() + digits))
        });
        match escape {
            Some((character, length)) => {
                plain.push(character);
                rest = &rest[length..];
            }
            None => {
                // An escaped character never starts another escape.
                let length =
                    if is_json && rest.starts_with('\\') { 1 + rest[1..].chars().next().map_or(0, char::len_utf8) } else { 1 };
                plain.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::secrets::PlainClickToken;

    #[test]
    fn replaces_tokens_anywhere_in_text() {
        let (one, two) = (PlainClickToken::generate(), PlainClickToken::generate());
        let text = format!(r#"{{"urls":["https://a.test/?x=1&ctx={0}&y=é","{1}"],"{0}":1}}"#, one.reveal(), two.reveal());
        let kept = json_without_click_tokens(RawValue::from_string(text).unwrap());
        assert_eq!(kept.get(), r#"{"urls":["https://a.test/?x=1&ctx=ctx_withheld&y=é","ctx_withheld"],"ctx_withheld":1}"#);
        assert_eq!(without_click_tokens(format!("{}{}", one.reveal(), two.reveal())), "ctx_withheldctx_withheld");
    }

    #[test]
    fn replaces_encoded_tokens() {
        let token = PlainClickToken::generate();
        let random = token.reveal().strip_prefix("ctx_").unwrap();
        for spelled in [format!("ctx\\u005f{random}"), format!("ctx%5F{random}"), format!("%63t\\u0078_{random}")] {
            let value = RawValue::from_string(format!(r#"{{"a":"x\\{spelled}&y=%20é"}}"#)).unwrap();
            assert_eq!(json_without_click_tokens(value).get(), r#"{"a":"x\\ctx_withheld&y=%20é"}"#, "{spelled}");
        }
        assert_eq!(
            without_click_tokens(format!("https://a.test/?x=%20&n=ctx%5f{random}")),
            "https://a.test/?x=%20&n=ctx_withheld"
        );
        let harmless = r#"{"a":"\\u005f %41 \u0041 \n"}"#;
        assert_eq!(json_without_click_tokens(RawValue::from_string(harmless.to_owned()).unwrap()).get(), harmless);
    }

    #[test]
    fn replaces_plain_and_encoded_tokens_together() {
        let (one, two) = (PlainClickToken::generate(), PlainClickToken::generate());
        let random = two.reveal().strip_prefix("ctx_").unwrap();
        assert_eq!(
            without_click_tokens(format!("https://a.test/?a={}&b=ctx%5F{random}", one.reveal())),
            "https://a.test/?a=ctx_withheld&b=ctx_withheld"
        );
        let value = RawValue::from_string(format!(r#"{{"a":"{}","b":"\u0063tx\u005f{random}"}}"#, one.reveal())).unwrap();
        assert_eq!(json_without_click_tokens(value).get(), r#"{"a":"ctx_withheld","b":"ctx_withheld"}"#);
    }

    #[test]
    fn keeps_text_that_only_looks_like_a_token() {
        let short = "ctx_short ctx_ https://a.test/ctx_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ctx_é";
        assert_eq!(without_click_tokens(short.to_owned()), short);
    }
}
