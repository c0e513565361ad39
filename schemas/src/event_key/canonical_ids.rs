//! Canonical forms of the ids in keys. Stored ids remain as reported, except that UUIDs have one form.

use std::borrow::Cow;
use uuid::Uuid;

/// Returns the hyphenated lower-case form of a UUID in any of its four spellings (upper case, braces, `urn:uuid:`, no
/// hyphens), and any other id unchanged.
pub fn canonical_id(id: &str) -> String {
    Uuid::try_parse(id).map_or_else(|_| id.to_owned(), |uuid| uuid.to_string())
}

/// Lower-case placeholders that loggers, languages and people write instead of a correlation id.
const NO_TELEMETRY_ID: [&str; 8] = [
    "",
    "-",
    "null",
    "(null)",
    "none",
    "undefined",
    "00000000-0000-0000-0000-000000000000",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
];

/// Returns the canonical form of a correlation id, without spaces and quotes around it. Returns `None` for placeholders, which
/// would otherwise merge unrelated fetches.
pub fn canonical_telemetry_id(id: &str) -> Option<String> {
    let id = canonical_id(id.trim_matches(|around: char| around.is_whitespace() || matches!(around, '"' | '\'')));
    let is_placeholder = NO_TELEMETRY_ID.iter().any(|none| id.eq_ignore_ascii_case(none));
    (!is_placeholder).then_some(id)
}

/// Returns the canonical correlation id of a log line. Only a UUID is accepted, because visitors can write anything into request
/// headers, and some log formats have another field in the id's place.
pub fn telemetry_id_of_line(logged: &str) -> Option<String> {
    canonical_telemetry_id(logged).filter(|id| Uuid::try_parse(id).is_ok())
}

/// Prefixes of a DOI, in lower case.
const DOI_PREFIXES: [&str; 7] =
    ["doi:", "https://doi.org/", "http://doi.org/", "https://dx.doi.org/", "http://dx.doi.org/", "doi.org/", "dx.doi.org/"];

/// Returns the content id as used in keys: `doi:10.…` in lower case for every spelling of a DOI; other ids are unchanged.
pub fn canonical_content_id(id: &str) -> Cow<'_, str> {
    let lower = id.trim().to_ascii_lowercase();
    let doi = DOI_PREFIXES.iter().find_map(|prefix| lower.strip_prefix(prefix)).map(str::trim_start).filter(|doi| is_doi(doi));
    doi.map_or(Cow::Borrowed(id), |doi| Cow::Owned(format!("doi:{doi}")))
}

/// A DOI is `10.`, the registrant's number, a slash and a name.
fn is_doi(text: &str) -> bool {
    let Some((registrant, name)) = text.strip_prefix("10.").and_then(|rest| rest.split_once('/')) else { return false };
    let is_number = registrant.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_number && !registrant.is_empty() && !name.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANONICAL: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

    #[test]
    fn all_four_spellings_of_a_uuid_are_one_id() {
        for spelling in [
            CANONICAL,
            "67E55044-10B1-426F-9247-BB680E5FE0C8",
            "67e5504410b1426f9247bb680e5fe0c8",
            "{67e55044-10b1-426f-9247-bb680e5fe0c8}",
            "urn:uuid:67e55044-10b1-426f-9247-bb680e5fe0c8",
        ] {
            assert_eq!(canonical_id(spelling), CANONICAL);
        }
        assert_eq!(canonical_id("Order-7"), "Order-7");
    }

    #[test]
    fn strips_quotes_and_rejects_placeholder_correlation_ids() {
        for (reported, expected) in [
            ("t-1", "t-1"),
            (" t-1\t", "t-1"),
            ("\"t-1\"", "t-1"),
            ("' t-1'", "t-1"),
            ("T-1 2", "T-1 2"),
            ("\"{67E55044-10B1-426F-9247-BB680E5FE0C8}\"", CANONICAL),
            ("nullify", "nullify"),
            ("--", "--"),
            ("0", "0"),
        ] {
            assert_eq!(canonical_telemetry_id(reported).as_deref(), Some(expected), "{reported:?}");
        }
        for placeholder in NO_TELEMETRY_ID {
            for spelling in [placeholder.to_owned(), format!(" \"{placeholder}\""), placeholder.to_uppercase()] {
                assert_eq!(canonical_telemetry_id(&spelling), None, "{spelling:?}");
            }
        }
        let nil = Uuid::nil();
        for spelling in [nil.simple().to_string(), nil.urn().to_string(), nil.braced().to_string()] {
            assert_eq!(canonical_telemetry_id(&spelling), None, "{spelling:?}");
        }
        assert_eq!(canonical_telemetry_id(&Uuid::max().simple().to_string()), None);
    }

    #[test]
    fn log_lines_must_have_uuid_correlation_ids() {
        for logged in [CANONICAL, " \"67E55044-10B1-426F-9247-BB680E5FE0C8\" ", "67e5504410b1426f9247bb680e5fe0c8"] {
            assert_eq!(telemetry_id_of_line(logged).as_deref(), Some(CANONICAL), "{logged}");
        }
        let long = format!("{CANONICAL}{}", "a".repeat(10_000));
        let two = format!("{CANONICAL}, {CANONICAL}");
        let nil = Uuid::nil().to_string();
        for logged in ["t-1", "203.0.113.7", "198.51.100.1, 203.0.113.7", "", "-", "0", &long, &two, &nil] {
            assert_eq!(telemetry_id_of_line(logged), None, "{logged}");
        }
    }

    #[test]
    fn all_spellings_of_a_doi_are_one_content_id() {
        for spelling in [
            "doi:10.1000/abc.1",
            "DOI:10.1000/ABC.1",
            "doi: 10.1000/Abc.1",
            "https://doi.org/10.1000/abc.1",
            "http://doi.org/10.1000/ABC.1",
            "HTTPS://DX.DOI.ORG/10.1000/abc.1",
            "http://dx.doi.org/10.1000/abc.1",
            "dx.doi.org/10.1000/abc.1",
        ] {
            assert_eq!(canonical_content_id(spelling), "doi:10.1000/abc.1", "{spelling}");
        }
        for other in ["Article-7", "doi:1", "doi:10.1000", "https://doi.org/", "https://doi.org/Abc", "isbn:10.1000/A", ""] {
            assert_eq!(canonical_content_id(other), other);
        }
    }
}
