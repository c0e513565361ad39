//! Click tokens in places where nobody asked for them: a referrer, a list of cited URLs, a member of the reporter's own.
//! A token is a bearer secret, and the log keeps secrets as hashes only (design.md, invariant 7).
//!
//! Must leave every text without a token byte for byte as it is.

use schemas::secrets::click_tokens_in;
use serde_json::value::RawValue;
use std::ops::Range;

/// What stands where a token stood.
const WITHHELD: &str = "ctx_withheld";

/// The text with every click token in it withheld.
pub(crate) fn without_click_tokens(text: String) -> String {
    let tokens: Vec<Range<usize>> = click_tokens_in(&text).collect();
    if tokens.is_empty() {
        return text;
    }
    let (mut kept, mut from) = (String::with_capacity(text.len()), 0);
    for token in tokens {
        kept.push_str(&text[from..token.start]);
        kept.push_str(WITHHELD);
        from = token.end;
    }
    kept.push_str(&text[from..]);
    kept
}

/// The JSON with every click token in its strings withheld: a token needs no escape, and what replaces it neither.
pub(crate) fn json_without_click_tokens(value: Box<RawValue>) -> Box<RawValue> {
    if click_tokens_in(value.get()).next().is_none() {
        return value;
    }
    let text = without_click_tokens(value.get().to_owned());
    RawValue::from_string(text).expect("only characters within strings were replaced")
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::secrets::PlainClickToken;

    #[test]
    fn tokens_are_withheld_wherever_they_stand() {
        let (one, two) = (PlainClickToken::mint(), PlainClickToken::mint());
        let text = format!(r#"{{"urls":["https://a.test/?x=1&ctx={0}&y=é","{1}"],"{0}":1}}"#, one.reveal(), two.reveal());
        let kept = json_without_click_tokens(RawValue::from_string(text).unwrap());
        assert_eq!(kept.get(), r#"{"urls":["https://a.test/?x=1&ctx=ctx_withheld&y=é","ctx_withheld"],"ctx_withheld":1}"#);
        assert_eq!(without_click_tokens(format!("{}{}", one.reveal(), two.reveal())), "ctx_withheldctx_withheld");
    }

    #[test]
    fn what_only_looks_like_a_token_stays() {
        let short = "ctx_short ctx_ https://a.test/ctx_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ctx_é";
        assert_eq!(without_click_tokens(short.to_owned()), short);
    }
}
