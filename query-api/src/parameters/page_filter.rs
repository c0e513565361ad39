//! The pages of a list of URLs: their paths, and whether they are grouped by section.
//!
//! Filters compare only the path of the URL in the list, so they reveal nothing more than the list.

use super::invalid;
use service_kit::http::ApiError;

/// Suffix of a path that matches all paths with this prefix.
const WILDCARD: char = '*';

/// Matches one path, or all paths with a prefix. Comparison is exact and case-sensitive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PagePath {
    Exact(String),
    Prefix(String),
}

/// What one row of the list contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PagesBy {
    #[default]
    Url,
    /// A host and the first segment of a path.
    Section,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PageFilter {
    pub(crate) by: PagesBy,
    pub(crate) path: Option<PagePath>,
}

impl PageFilter {
    pub(crate) fn parse(by: Option<&str>, path: Option<&str>) -> Result<Self, ApiError> {
        let by = match by {
            None | Some("url") => PagesBy::Url,
            Some("section") => PagesBy::Section,
            Some(_) => return Err(invalid("by must be one of: url, section.")),
        };
        Ok(Self { by, path: path.map(PagePath::parse).transpose()? })
    }
}

impl PagePath {
    fn parse(path: &str) -> Result<Self, ApiError> {
        if !path.starts_with('/') {
            return Err(invalid("path must start with a slash, for example /blog/a or /blog/*."));
        }
        let (beginning, is_beginning) = path.strip_suffix(WILDCARD).map_or((path, false), |beginning| (beginning, true));
        if beginning.contains(WILDCARD) {
            return Err(invalid("path can contain * only at its end, for example /blog/*."));
        }
        if beginning.contains(['?', '#']) {
            return Err(invalid("path must not contain ? or #. Leave out the query and the fragment."));
        }
        // ClickHouse rejects NUL in parameters, and no URL contains it.
        if beginning.contains('\0') {
            return Err(invalid("path must not contain NUL characters."));
        }
        let beginning = beginning.to_owned();
        Ok(if is_beginning { Self::Prefix(beginning) } else { Self::Exact(beginning) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_paths() {
        let parsed = |path: &str| PagePath::parse(path).ok();
        for whole in ["/", "/a", "/a/", "//", "/%2A", "/100%_\\", "/\u{e4} b", "/a&b=c;d"] {
            assert_eq!(parsed(whole), Some(PagePath::Exact(whole.to_owned())));
            assert_eq!(parsed(&format!("{whole}*")), Some(PagePath::Prefix(whole.to_owned())));
        }
        for (bad, said) in [
            (
                &["", "*", "a", "a/*", " /a", "https://example.com/a"][..],
                "must start with a slash, for example /blog/a or /blog/*.",
            ),
            (&["/*/a", "/**", "/a*b*"], "can contain * only at its end, for example /blog/*."),
            (&["/a?", "/a?b*", "/a#b"], "must not contain ? or #. Leave out the query and the fragment."),
            (&["/\0"], "must not contain NUL characters."),
        ] {
            for path in bad {
                assert_eq!(PagePath::parse(path).unwrap_err().detail(), format!("path {said}"), "{path:?}");
            }
        }
    }

    #[test]
    fn parses_by_url_or_section() {
        let by = |by| PageFilter::parse(by, None).ok().map(|pages| pages.by);
        assert_eq!([None, Some("url"), Some("section")].map(by), [PagesBy::Url, PagesBy::Url, PagesBy::Section].map(Some));
        for bad in ["", "Section", "agent", "url,section"] {
            assert_eq!(by(Some(bad)), None, "{bad}");
        }
    }
}
