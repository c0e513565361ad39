//! Finds bot names in user agents, where a name counts only as a product token (docs/api/crawlers.md#bot-table).

use std::ops::Range;

/// Bytes to read on each side of a name. A name inside a longer word isn't a product.
const MAX_WORD_BYTES: usize = 128;
const MAX_VARIANT_BYTES: usize = 32;
/// Words that compare an agent with the name that follows.
const COMPARISONS: &[&[u8]] = &[b"like", b"compatible with", b"not", b"unlike", b"as"];

pub(super) struct Product {
    /// The part after the name and a hyphen: `Image` of `ExampleBot-Image/1.0`.
    pub(super) variant: Option<Range<usize>>,
}

/// Returns the product whose name is at `start..end`, or `None` if the name is part of an email address, a link, another word or a
/// comparison.
pub(super) fn product(text: &[u8], start: usize, end: usize) -> Option<Product> {
    let before = text.get(start.saturating_sub(MAX_WORD_BYTES)..start)?;
    let after = text.get(end..text.len().min(end + MAX_WORD_BYTES))?;
    let word_start = before.iter().rposition(|byte| is_delimiter(*byte)).map_or(0, |at| at + 1);
    let is_cut = word_start == 0 && start > MAX_WORD_BYTES;
    let (earlier, prefix) = before.split_at(word_start);
    let suffix = &after[..after.iter().position(|byte| is_delimiter(*byte)).unwrap_or(after.len())];
    if is_cut || !begins_product(prefix) || is_compared(earlier) || is_address(suffix) {
        return None;
    }
    let length = variant_length(suffix);
    if !ends_product(&suffix[length..], length > 0) {
        return None;
    }
    Some(Product { variant: (length > 0).then_some(end + 1..end + length) })
}

fn is_delimiter(byte: u8) -> bool {
    b" \t()[]{}<>;,\"'|".contains(&byte)
}

/// Some servers log `+` instead of spaces: `Mozilla/5.0+ExampleBot/1.0`.
fn begins_product(prefix: &[u8]) -> bool {
    let Some(fields) = prefix.strip_suffix(b"+") else { return prefix.is_empty() };
    let is_field = |field: &[u8]| {
        field.first() != Some(&b'/') && field.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(byte))
    };
    let slashes = fields.iter().filter(|byte| **byte == b'/').count();
    slashes <= 1 && fields.split(|byte| *byte == b'+').all(is_field)
}

/// Returns the length of the variant including its hyphen, or 0.
fn variant_length(suffix: &[u8]) -> usize {
    if suffix.first() != Some(&b'-') || !suffix.get(1).is_some_and(u8::is_ascii_alphanumeric) {
        return 0;
    }
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    1 + suffix[1..].iter().take(MAX_VARIANT_BYTES).take_while(is_part).count()
}

fn ends_product(rest: &[u8], is_variant: bool) -> bool {
    match rest {
        [] | [b'/' | b'+', ..] => true,
        [b':', ..] => !rest.starts_with(b"://"),
        [b'.'] => !is_variant,
        _ => false,
    }
}

/// `bot@example.com`, but not `ExampleBot/bot@example.com`.
fn is_address(suffix: &[u8]) -> bool {
    suffix.iter().position(|byte| *byte == b'@').is_some_and(|at| !suffix[..at].contains(&b'/'))
}

fn is_compared(earlier: &[u8]) -> bool {
    let words = earlier.trim_ascii_end();
    let is_comparison = |comparison: &&[u8]| {
        let Some(start) = words.len().checked_sub(comparison.len()) else { return false };
        let is_word = start.checked_sub(1).is_none_or(|at| !words[at].is_ascii_alphabetic());
        is_word && words[start..].eq_ignore_ascii_case(comparison)
    };
    words.len() < earlier.len() && COMPARISONS.iter().any(is_comparison)
}
