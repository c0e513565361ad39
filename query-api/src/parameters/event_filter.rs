//! Filters of event lists: by type, agent, platform or outcome, and in an organization's own list by reporter.
//!
//! Filters compare only what the items show, so they reveal nothing more than the list.

use super::{ReadParameters, invalid};
use service_kit::http::ApiError;
use uuid::Uuid;

/// Values that all items of a list have. `None` doesn't filter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventFilter {
    pub(crate) event_type: Option<String>,
    /// An empty text matches events without an agent.
    pub(crate) agent_id: Option<String>,
    pub(crate) platform_id: Option<Uuid>,
    pub(crate) outcome: Option<Outcome>,
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
    pub(crate) fn parse(asked: Option<&str>) -> Result<Option<Self>, ApiError> {
        let known = [Self::Fetch, Self::Revalidation, Self::Failed];
        let named = |name: &str| known.into_iter().find(|outcome| outcome.as_str() == name);
        let unknown = || invalid("outcome must be one of: fetch, revalidation, failed.");
        asked.map(|name| named(name).ok_or_else(unknown)).transpose()
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Revalidation => "revalidation",
            Self::Failed => "failed",
        }
    }
}

/// The `reported_by` of an item in an organization's own list.
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

impl EventFilter {
    pub(crate) fn parse(asked: &ReadParameters) -> Result<Self, ApiError> {
        let outcome = Outcome::parse(asked.get("outcome"))?;
        let platform_id = asked.get("platform_id").map(Uuid::try_parse).transpose();
        let platform_id = platform_id.map_err(|_| invalid("platform_id must be a UUID."))?;
        let (event_type, agent_id) = (asked.get("event_type").map(str::to_owned), asked.get("agent_id").map(str::to_owned));
        if event_type.as_ref().is_some_and(String::is_empty) {
            return Err(invalid("event_type must not be empty."));
        }
        // ClickHouse rejects NUL in parameters, and no stored value contains it.
        if [&event_type, &agent_id].into_iter().flatten().any(|value| value.contains('\0')) {
            return Err(invalid("Filters must not contain NUL characters."));
        }
        Ok(Self { event_type, agent_id, platform_id, outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str, value: &str) -> Option<EventFilter> {
        EventFilter::parse(&ReadParameters::from([(name, value)])).ok()
    }

    #[test]
    fn rejects_invalid_filters() {
        let unnamed = EventFilter { agent_id: Some(String::new()), ..EventFilter::default() };
        assert_eq!(parsed("agent_id", ""), Some(unnamed));
        for (name, value) in
            [("event_type", ""), ("event_type", "a\0"), ("agent_id", "\0"), ("platform_id", ""), ("platform_id", "x")]
        {
            assert_eq!(parsed(name, value), None, "{name} {value:?}");
        }
    }

    #[test]
    fn parses_reported_by_and_outcome() {
        let reported_by = |asked| ReportedBy::parse(asked).ok();
        assert_eq!(reported_by(None), Some(None));
        for known in [ReportedBy::Own, ReportedBy::Other] {
            assert_eq!(reported_by(Some(known.as_str())), Some(Some(known)));
        }
        for unknown in ["", "Self", "others", "self,other", "other "] {
            assert_eq!(reported_by(Some(unknown)), None, "{unknown}");
        }
        let outcome = |asked| Outcome::parse(asked).ok();
        assert_eq!(outcome(None), Some(None));
        for known in [Outcome::Fetch, Outcome::Revalidation, Outcome::Failed] {
            assert_eq!(outcome(Some(known.as_str())), Some(Some(known)));
        }
        for unknown in ["", "Fetch", "fetch,failed", "fetch "] {
            assert_eq!(outcome(Some(unknown)), None, "{unknown}");
        }
    }
}
