//! Headers with weighted preferences, such as `Accept` (RFC 9110, 12.4.2).

use axum::http::{HeaderMap, HeaderName};

/// Returns the values in order, each with its weight in thousandths. Skips values with an invalid weight.
pub fn quality_values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = (&'a str, u16)> {
    let lists = headers.get_all(name).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).filter_map(one)
}

fn one(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let value = parts.next().filter(|value| !value.is_empty())?;
    let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    let weight = weight.map_or(Some(1.0), |weight| weight.trim().parse::<f32>().ok())?;
    let thousandths = (weight * 1_000.0).round();
    // The range makes the cast lossless.
    (0.0..=1_000.0).contains(&thousandths).then_some((value, thousandths as u16))
}
