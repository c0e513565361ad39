//! The event members that content owners see, and the click members that the token's issuer sees.
//!
//! This is an allow-list, because an unknown member may contain an IP address, a prompt or a name.
//! `a13_visible_members_match_the_documentation` compares it with docs/api/reads.md.

use schemas::event::is_namespaced;
use schemas::session::conversation;

/// Standard members by event type. All are scalars except [`FINGERPRINT`].
pub(crate) const BY_TYPE: &[(&str, &[&str])] = &[
    (
        "content_retrieved",
        &[
            "media_type",
            "content_depth",
            "user_agent",
            "purpose",
            "bot_name",
            "verified",
            "cache_status",
            "response_status",
            "response_bytes",
            "ja4",
            "asn",
            "asn_org",
            "country",
        ],
    ),
    (
        "content_grounded",
        &[
            "scope",
            "cached",
            "provenance",
            "chars_ingested",
            "tokens_ingested",
            "content_version",
            "content_last_modified",
            "content_hash",
            "media_type",
            FINGERPRINT,
        ],
    ),
    (
        "content_cited",
        &[
            "citation_type",
            "position",
            "excerpt_chars",
            "excerpt_tokens",
            "excerpt_hash",
            "content_hash",
            "url_verified",
            "media_type",
        ],
    ),
    ("content_presented", &["presentation_kind", "presentation_type", "media_type"]),
    ("content_engaged", &["engagement_type"]),
    ("checkout_completed", &["value_amount", "amount", "currency"]),
];

/// Members that every event type can have: standard references next to `data`, and token counts.
pub(crate) const FOR_ALL_TYPES: &[&str] =
    &["query_tokens", "response_tokens", "output_element_id", "citation_id", "presentation_id", "license_ref", "terms_ref"];

/// The only standard member that is an object.
pub(crate) const FINGERPRINT: &str = "content_fingerprint";
pub(crate) const FINGERPRINT_MEMBERS: &[&str] = &["scheme", "detected", "value"];

/// Returns whether owners see this member: it is in the standard, or it is namespaced, which means that its name contains a dot.
pub(super) fn is_visible(event_type: &str, name: &str) -> bool {
    of_standard(event_type).contains(&name) || FOR_ALL_TYPES.contains(&name) || is_namespaced(name)
}

/// Returns whether exports contain this member of `data` in addition, without its private members.
pub(super) fn is_exported(event_type: &str, name: &str) -> bool {
    (event_type, name) == ("content_grounded", "evidence")
}

/// Returns whether exports contain this member of `data` only for sessions at the level `full`.
pub(super) fn is_by_level(event_type: &str, name: &str) -> bool {
    !is_visible(event_type, name) && !is_exported(event_type, name) && !is_private(name)
}

/// Returns whether owners never see a member with this name, because it describes a conversation or an address.
pub(super) fn is_private(name: &str) -> bool {
    let names = [conversation::AT_MINIMAL, conversation::AT_INTENT, conversation::AT_SUMMARY].concat();
    names.iter().chain(&[conversation::LEVEL, "turn", "ip_hash"]).any(|private| private.eq_ignore_ascii_case(name))
}

fn of_standard(event_type: &str) -> &'static [&'static str] {
    BY_TYPE.iter().find(|(of, _)| *of == event_type).map_or(&[], |(_, names)| names)
}

/// Returns the members of a click that its token's issuer sees.
pub(crate) fn click_members(event_type: &str) -> &'static [&'static str] {
    match event_type {
        "content_engaged" | "checkout_completed" => of_standard(event_type),
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Returns the rows of the table below a heading: event type and member names.
    fn documented(heading: &str) -> Vec<(String, Vec<String>)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api/reads.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, section) = text.split_once(heading).expect("docs/api/reads.md has this heading");
        let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|line| line.starts_with('|'));
        let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let row = |row: &str| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
            (cells[0].trim().trim_matches('`').to_owned(), names(cells[1]))
        };
        rows.map(row).collect()
    }

    #[test]
    fn a13_visible_members_match_the_documentation() {
        let row = |of: &str, names: &[&str]| (of.to_owned(), names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let mut expected: Vec<_> = BY_TYPE.iter().map(|(of, names)| row(of, names)).collect();
        expected.push(row("every type", FOR_ALL_TYPES));
        assert_eq!(documented("### Members that owners see\n"), expected);
    }
}
