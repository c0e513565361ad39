//! Filters for owners' reads, and for an organization's own list by reporter.
//!
//! Filters compare only what the items show, so they reveal no more than the reads.

use super::{ReadParameters, invalid};
use schemas::event::SourceRole;
use schemas::signature::SignatureResult;
use service_kit::http::ApiError;
use uuid::Uuid;

/// Suffix of a path that matches all paths with this prefix; at both ends, all paths that contain the text.
const WILDCARD: char = '*';

/// Returns a value in the form used by the statements, or an error that continues the parameter's name.
type Parse = fn(&str) -> Result<String, &'static str>;

/// Event dimensions that reads can be filtered by. `sql/filters.sql` and `sql/filters_lines.sql` contain the conditions.
const DIMENSIONS: [(&str, Parse); 14] = [
    ("agent_id", text),
    ("agent_or_bot", text),
    ("bot", text),
    ("event_type", |name| if name.is_empty() { Err("must not be empty.") } else { text(name) }),
    ("evidence", |name| match name {
        "claimed" | "observed" | "corroborated" | "signed" => Ok(name.to_owned()),
        "unknown" => Ok(String::new()),
        _ => Err("must be one of: claimed, observed, corroborated, signed, unknown."),
    }),
    ("operator", text),
    ("outcome", |name| {
        let outcome = Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == name);
        outcome.map(|outcome| outcome.as_str().to_owned()).ok_or("must be one of: fetch, revalidation, failed.")
    }),
    ("path", path),
    ("platform_id", |id| Uuid::try_parse(id).map(|id| id.to_string()).map_err(|_| "must be a UUID.")),
    ("purpose", |name| match name {
        "training" | "search" | "user" => Ok(name.to_owned()),
        "unknown" => Ok(String::new()),
        _ => Err("must be one of: training, search, user, unknown."),
    }),
    ("signature", |name| {
        let result: SignatureResult = name.parse().map_err(|_| "must be one of: valid, invalid, none.")?;
        Ok(result.as_str().to_owned())
    }),
    ("source_role", |name| {
        let role = SourceRole::parse(name).ok_or("must be one of: agent, edge, origin, index.")?;
        Ok(SourceRole::code(Some(role)).to_string())
    }),
    ("status", status),
    ("verified", |name| match name {
        "true" => Ok("yes".to_owned()),
        "false" => Ok("no".to_owned()),
        "unknown" => Ok(name.to_owned()),
        _ => Err("must be one of: true, false, unknown."),
    }),
];

/// Names of all filters for owners' reads.
pub(crate) const FILTERS: [&str; DIMENSIONS.len()] = {
    let (mut names, mut at) = ([""; DIMENSIONS.len()], 0);
    while at < names.len() {
        names[at] = DIMENSIONS[at].0;
        at += 1;
    }
    names
};

/// Dimensions with the value that all counted events have, in the form used by the statements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventFilter(Vec<(&'static str, String)>);

impl EventFilter {
    pub(crate) fn parse(asked: &ReadParameters) -> Result<Self, ApiError> {
        let mut values = Vec::new();
        for (name, parse) in DIMENSIONS {
            if let Some(value) = asked.get(name) {
                values.push((name, parse(value).map_err(|error| invalid(format!("{name} {error}")))?));
            }
        }
        Ok(Self(values))
    }

    /// Returns a filter's value, and the other filters.
    pub(crate) fn without(mut self, name: &str) -> (Option<String>, Self) {
        let place = self.0.iter().position(|(known, _)| *known == name);
        (place.map(|place| self.0.remove(place).1), self)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.0.iter().map(|(name, value)| (*name, value.as_str()))
    }

    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let (_, asked) = self.values().find(|(name, _)| *name == "outcome")?;
        Outcome::ALL.into_iter().find(|outcome| outcome.as_str() == asked)
    }
}

/// Accepts any text. An empty value matches events without a value.
fn text(text: &str) -> Result<String, &'static str> {
    // ClickHouse rejects NUL in parameters, and stored values never contain it.
    if text.contains('\0') { Err("must not contain NUL characters.") } else { Ok(text.to_owned()) }
}

/// One path, all paths with a prefix, or all paths that contain a string. Only the last one ignores the case of ASCII letters.
fn path(path: &str) -> Result<String, &'static str> {
    let within = path.strip_suffix(WILDCARD).unwrap_or(path);
    let part = within.strip_prefix(WILDCARD).filter(|part| !part.is_empty() && within.len() < path.len());
    if part.is_none() && !path.starts_with('/') {
        return Err("must start with a slash, such as /blog/a or /blog/*, or contain text between asterisks, such as *news*.");
    }
    let within = part.unwrap_or(within);
    if within.contains(WILDCARD) {
        return Err("can contain * only at its end, for example /blog/*, or at both ends, for example *news*.");
    }
    if within.contains(['?', '#']) {
        return Err("must not contain ? or #. Omit the query and the fragment.");
    }
    text(path)
}

/// Returns a status or a status class, such as `2xx`, as a pattern.
fn status(status: &str) -> Result<String, &'static str> {
    if let [class @ b'1'..=b'5', b'x', b'x'] = status.as_bytes() {
        return Ok(format!("{}__", char::from(*class)));
    }
    let is_number = status.bytes().all(|byte| byte.is_ascii_digit());
    let status = status.parse::<u16>().ok().filter(|_| is_number);
    status.map(|status| status.to_string()).ok_or("must be a status, such as 404, or one of: 1xx, 2xx, 3xx, 4xx, 5xx.")
}

/// Result of a fetch (docs/api/counting.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The content was returned, or the status is unknown.
    Fetch,
    /// Status 304: the bot already has the content.
    Revalidation,
    /// Any other status.
    Failed,
}

impl Outcome {
    pub(crate) const ALL: [Self; 3] = [Self::Fetch, Self::Revalidation, Self::Failed];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Revalidation => "revalidation",
            Self::Failed => "failed",
        }
    }
}

/// `reported_by` of an item in an organization's own list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportedBy {
    Own,
    /// Another organization, with one of the caller's click tokens.
    Other,
}

impl ReportedBy {
    pub(crate) fn parse(asked: Option<&str>) -> Result<Option<Self>, ApiError> {
        match asked {
            None => Ok(None),
            Some("self") => Ok(Some(Self::Own)),
            Some("other") => Ok(Some(Self::Other)),
            Some(_) => Err(invalid("reported_by must be one of: self, other.")),
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Own => "self",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, value: &str) -> Result<String, String> {
        let filter = EventFilter::parse(&ReadParameters::new([(name, value)])).map_err(|error| error.detail().to_owned())?;
        assert_eq!(filter.0.len(), 1, "{name}");
        Ok(filter.0[0].1.clone())
    }

    #[test]
    fn parses_every_filter() {
        for (name, value, stored) in [
            ("agent_id", "", ""),
            ("agent_or_bot", "GPTBot", "GPTBot"),
            ("path", "*News/a*", "*News/a*"),
            ("bot", "GPTBot", "GPTBot"),
            ("event_type", "content_cited", "content_cited"),
            ("evidence", "corroborated", "corroborated"),
            ("evidence", "signed", "signed"),
            ("evidence", "unknown", ""),
            ("operator", "OpenAI", "OpenAI"),
            ("outcome", "failed", "failed"),
            ("platform_id", "00000000-0000-0000-0000-00000000000A", "00000000-0000-0000-0000-00000000000a"),
            ("purpose", "search", "search"),
            ("purpose", "unknown", ""),
            ("signature", "none", "none"),
            ("source_role", "index", "4"),
            ("status", "2xx", "2__"),
            ("status", "007", "7"),
            ("status", "0", "0"),
            ("verified", "true", "yes"),
            ("verified", "false", "no"),
            ("verified", "unknown", "unknown"),
        ] {
            assert_eq!(parsed(name, value).as_deref(), Ok(stored), "{name} {value}");
        }
        for whole in ["/", "/a", "/a/", "//", "/%2A", "/100%_\\", "/\u{e4} b", "/a&b=c;d"] {
            for path in [whole.to_owned(), format!("{whole}*")] {
                assert_eq!(parsed("path", &path), Ok(path.clone()));
            }
        }
        assert_eq!(EventFilter::parse(&ReadParameters::default()).unwrap(), EventFilter::default());
    }

    #[test]
    fn rejects_invalid_filters() {
        for (name, value, said) in [
            ("agent_id", "\0", "must not contain NUL characters."),
            ("bot", "a\0", "must not contain NUL characters."),
            ("event_type", "", "must not be empty."),
            ("evidence", "", "must be one of: claimed, observed, corroborated, signed, unknown."),
            ("outcome", "fetch,failed", "must be one of: fetch, revalidation, failed."),
            (
                "path",
                " /a",
                "must start with a slash, such as /blog/a or /blog/*, or contain text between asterisks, such as *news*.",
            ),
            (
                "path",
                "",
                "must start with a slash, such as /blog/a or /blog/*, or contain text between asterisks, such as *news*.",
            ),
            ("path", "/*a", "can contain * only at its end, for example /blog/*, or at both ends, for example *news*."),
            ("path", "/**", "can contain * only at its end, for example /blog/*, or at both ends, for example *news*."),
            (
                "path",
                "*news",
                "must start with a slash, such as /blog/a or /blog/*, or contain text between asterisks, such as *news*.",
            ),
            (
                "path",
                "**",
                "must start with a slash, such as /blog/a or /blog/*, or contain text between asterisks, such as *news*.",
            ),
            ("path", "*a*b*", "can contain * only at its end, for example /blog/*, or at both ends, for example *news*."),
            ("path", "*a?*", "must not contain ? or #. Omit the query and the fragment."),
            ("path", "/a?b", "must not contain ? or #. Omit the query and the fragment."),
            ("path", "/\0*", "must not contain NUL characters."),
            ("platform_id", "x", "must be a UUID."),
            ("purpose", "User", "must be one of: training, search, user, unknown."),
            ("signature", "yes", "must be one of: valid, invalid, none."),
            ("source_role", "cdn", "must be one of: agent, edge, origin, index."),
            ("status", "+404", "must be a status, such as 404, or one of: 1xx, 2xx, 3xx, 4xx, 5xx."),
            ("status", "", "must be a status, such as 404, or one of: 1xx, 2xx, 3xx, 4xx, 5xx."),
            ("status", "6xx", "must be a status, such as 404, or one of: 1xx, 2xx, 3xx, 4xx, 5xx."),
            ("status", "65536", "must be a status, such as 404, or one of: 1xx, 2xx, 3xx, 4xx, 5xx."),
            ("verified", "yes", "must be one of: true, false, unknown."),
        ] {
            assert_eq!(parsed(name, value), Err(format!("{name} {said}")), "{value:?}");
        }
    }

    #[test]
    fn parses_reported_by() {
        let reported_by = |asked| ReportedBy::parse(asked).ok();
        assert_eq!(reported_by(None), Some(None));
        for known in [ReportedBy::Own, ReportedBy::Other] {
            assert_eq!(reported_by(Some(known.as_str())), Some(Some(known)));
        }
        for unknown in ["", "Self", "others", "self,other", "other "] {
            assert_eq!(reported_by(Some(unknown)), None, "{unknown}");
        }
    }
}
