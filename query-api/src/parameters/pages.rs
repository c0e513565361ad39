//! Which pages a list of URLs is about, and by what it counts them.
//!
//! Must go by the path of the URL that the list shows, and by nothing else: a filter tells no more than the list does.

use super::invalid;
use service_kit::http::ApiError;

/// What stands at the end of a path that others begin with.
const ANYTHING: char = '*';

/// The pages of one path, or of all that begin with one. Letters count as they are written, and so does every other character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PagePath {
    Whole(String),
    Beginning(String),
}

/// What one row of the list is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PagesBy {
    #[default]
    Url,
    /// A host and the first step of a path.
    Section,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    pub(crate) by: PagesBy,
    pub(crate) path: Option<PagePath>,
}

impl Pages {
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
        let (beginning, is_beginning) = path.strip_suffix(ANYTHING).map_or((path, false), |beginning| (beginning, true));
        if beginning.contains(ANYTHING) {
            return Err(invalid("path can contain * only at its end, for example /blog/*."));
        }
        if beginning.contains(['?', '#']) {
            return Err(invalid("path must not contain ? or #. Leave out the query and the fragment."));
        }
        // The store takes no NUL in a parameter, and no URL holds one.
        if beginning.contains('\0') {
            return Err(invalid("path must not contain NUL characters."));
        }
        let beginning = beginning.to_owned();
        Ok(if is_beginning { Self::Beginning(beginning) } else { Self::Whole(beginning) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_a_slash_and_has_a_star_at_its_end_or_none() {
        let parsed = |path: &str| PagePath::parse(path).ok();
        for whole in ["/", "/a", "/a/", "//", "/%2A", "/100%_\\", "/\u{e4} b", "/a&b=c;d"] {
            assert_eq!(parsed(whole), Some(PagePath::Whole(whole.to_owned())));
            assert_eq!(parsed(&format!("{whole}*")), Some(PagePath::Beginning(whole.to_owned())));
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
    fn pages_are_counted_by_url_or_by_section() {
        let by = |by| Pages::parse(by, None).ok().map(|pages| pages.by);
        assert_eq!([None, Some("url"), Some("section")].map(by), [PagesBy::Url, PagesBy::Url, PagesBy::Section].map(Some));
        for bad in ["", "Section", "agent", "url,section"] {
            assert_eq!(by(Some(bad)), None, "{bad}");
        }
    }
}
