//! Names that tables use for API values.

use serde_json::Value;

/// Returns the singular and plural of an event type, such as "fetch" and "fetches"; other types keep their API name.
pub(crate) fn event_type(name: &str) -> (&str, &str) {
    match name {
        "content_retrieved" => ("fetch", "fetches"),
        "content_grounded" => ("grounding", "groundings"),
        "content_cited" => ("citation", "citations"),
        "content_presented" => ("presentation", "presentations"),
        "content_engaged" => ("engagement", "engagements"),
        "checkout_completed" => ("purchase", "purchases"),
        "turn_started" => ("turn started", "turns started"),
        "turn_completed" => ("turn completed", "turns completed"),
        other => (other, other),
    }
}

/// Returns an event type's position in lists, in the order in which content is used.
pub(crate) fn position(name: &str) -> usize {
    const ORDER: [&str; 5] = ["content_retrieved", "content_grounded", "content_cited", "content_presented", "content_engaged"];
    ORDER.iter().position(|known| *known == name).unwrap_or(ORDER.len())
}

/// Returns a reporter's name from the `source_role` of its reports.
pub(crate) fn reporter(role: &str) -> &str {
    match role {
        "agent" => "AI agent",
        "edge" => "CDN",
        "origin" => "Your server",
        "index" => "Marketplace",
        other => other,
    }
}

pub(crate) fn purpose(name: &str) -> &str {
    match name {
        "user" => "User request",
        "training" => "Training",
        "search" => "Search index",
        "" => "Unknown",
        other => other,
    }
}

/// Returns the result of the IP check: whether the bot's operator publishes the request's address.
pub(crate) fn ip_check(verified: &Value) -> &'static str {
    match verified {
        Value::Bool(true) => "Verified",
        Value::Bool(false) => "Mismatch (possibly spoofed)",
        _ => "Unknown",
    }
}

/// Returns an explanation of how a drain's lines with a correlation id were counted.
pub(crate) fn drain_lines(drain: &Value) -> String {
    let count = |name: &str| drain[name].as_u64().unwrap_or_default();
    format!(
        "Drain {}: {} lines with a correlation ID, {} joined with reports of other observers, {} reusing an ID.",
        drain["drain_id"].as_str().unwrap_or_default(),
        count("lines_with_id"),
        count("joined"),
        count("reused_ids")
    )
}

pub(crate) fn org_type(name: &str) -> &str {
    if name == "content_owner" { "content owner" } else { name }
}

/// Describes how many hours have data.
pub(crate) fn coverage(coverage: &Value) -> String {
    let hours = |name: &str| coverage[name].as_u64().unwrap_or_default();
    let (covered, missing) = (hours("hours_covered"), hours("hours_uncovered"));
    let total = covered + missing;
    let sentence = |rest: &str| {
        // 0 % and 100 % would mean no hours and all hours.
        let percent = ((covered * 200 + total) / (total * 2)).clamp(1, 99);
        format!("Server logs cover {covered} of {total} hours ({percent} %). {rest}")
    };
    match (covered, missing) {
        (0, 0) => "This period hasn't started yet.".to_owned(),
        (0, _) => "No server logs cover this period. What crawlers fetched is unknown, not zero.".to_owned(),
        (1, 0) => "Server logs cover the whole hour.".to_owned(),
        (_, 0) => format!("Server logs cover all {covered} hours."),
        (_, 1) => sentence("One hour has no data and isn't counted as zero."),
        (_, _) => sentence(&format!("{missing} hours have no data and aren't counted as zero.")),
    }
}

/// Capitalizes the first letter, unless the text starts with an API name such as `checkout_completed`.
pub(crate) fn capitalized(text: &str) -> String {
    let is_api_name = text.split(' ').next().is_some_and(|word| word.contains('_'));
    let mut chars = text.chars();
    match chars.next() {
        Some(first) if !is_api_name => first.to_uppercase().chain(chars).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn coverage_text_names_hours_without_data() {
        let of = |covered: u64, missing: u64| coverage(&json!({"hours_covered": covered, "hours_uncovered": missing}));
        let expected = "Server logs cover 681 of 710 hours (96 %). 29 hours have no data and aren't counted as zero.";
        assert_eq!(of(681, 29), expected);
        assert_eq!(of(999, 1), "Server logs cover 999 of 1000 hours (99 %). One hour has no data and isn't counted as zero.");
        assert_eq!(of(24, 0), "Server logs cover all 24 hours.");
        assert_eq!(of(1, 0), "Server logs cover the whole hour.");
        assert_eq!(of(0, 24), "No server logs cover this period. What crawlers fetched is unknown, not zero.");
        assert_eq!(of(0, 0), "This period hasn't started yet.");
    }
}
