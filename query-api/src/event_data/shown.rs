//! Which members of an event an owner is shown, and which of a click its token's issuer is.
//!
//! Must stay an allow-list: a name that nobody knows may hold an address, a prompt or a name. docs/api/reads.md lists the
//! same, and a test compares.

use schemas::event::is_namespaced;

/// The members of the public standard, by the type that has them. Each is a text, a number, true or false, but for
/// [`FINGERPRINT`].
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

/// The members of every type: references of the standard that stand beside `data`, and token counts.
pub(crate) const OF_EVERY_TYPE: &[&str] =
    &["query_tokens", "response_tokens", "output_element_id", "citation_id", "presentation_id", "license_ref", "terms_ref"];

/// The one member of the standard that is an object, and what of it is shown.
pub(crate) const FINGERPRINT: &str = "content_fingerprint";
pub(crate) const OF_FINGERPRINT: &[&str] = &["scheme", "detected", "value"];

/// Whether an owner is shown a member of that name on that type: the standard has it, or its name is the reporter's own
/// and says so by a dot.
pub(super) fn is_shown(event_type: &str, name: &str) -> bool {
    of_standard(event_type).contains(&name) || OF_EVERY_TYPE.contains(&name) || is_namespaced(name)
}

fn of_standard(event_type: &str) -> &'static [&'static str] {
    BY_TYPE.iter().find(|(of, _)| *of == event_type).map_or(&[], |(_, names)| names)
}

/// What the issuer of a click token is shown of the `data` of an event that another bound by it.
pub(crate) fn of_click(event_type: &str) -> &'static [&'static str] {
    match event_type {
        "content_engaged" | "checkout_completed" => of_standard(event_type),
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The lines of the table under a heading: the type, and the names.
    fn documented(heading: &str) -> Vec<(String, Vec<String>)> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/api/reads.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (_, section) = text.split_once(heading).expect("the heading stands in docs/api/reads.md");
        let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|line| line.starts_with('|'));
        let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
        let row = |row: &str| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
            (cells[0].trim().trim_matches('`').to_owned(), names(cells[1]))
        };
        rows.map(row).collect()
    }

    #[test]
    fn a13_the_list_in_docs_api_is_the_one_in_the_code() {
        let row = |of: &str, names: &[&str]| (of.to_owned(), names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let mut expected: Vec<_> = BY_TYPE.iter().map(|(of, names)| row(of, names)).collect();
        expected.push(row("every type", OF_EVERY_TYPE));
        assert_eq!(documented("### Members that owners are shown\n"), expected);
    }
}
