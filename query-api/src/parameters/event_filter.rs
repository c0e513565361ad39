//! Which events of a list are wanted: those of a type, of an agent, of a platform; of one's own list those that oneself or others
//! reported. Beside them, which pages of a list of URLs: what that means is told in [`super::pages`].
//!
//! Must be decided by what an item shows its reader, and by nothing else: a filter tells no more than the list does.

use schemas::problem::Code;
use serde::Deserialize;
use service_kit::http::ApiError;
use uuid::Uuid;

/// As they were asked for; beside the parameters of every read, so that those that have no such filter can refuse it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct FilterParameters {
    event_type: Option<String>,
    agent_id: Option<String>,
    platform_id: Option<String>,
    reported_by: Option<String>,
    path: Option<String>,
    outcome: Option<String>,
}

/// What the items of a list have in common; a member that is none is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventFilter {
    pub(crate) event_type: Option<String>,
    /// Empty: no agent is named.
    pub(crate) agent_id: Option<String>,
    pub(crate) platform_id: Option<Uuid>,
    pub(crate) outcome: Option<Outcome>,
}

/// What became of a fetch (docs/api/counting.md).
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
    /// The outcome of this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Fetch, Self::Revalidation, Self::Failed].into_iter().find(|outcome| outcome.as_str() == name)
    }

    /// The name in requests and responses.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Fetch => "fetch",
            Self::Revalidation => "revalidation",
            Self::Failed => "failed",
        }
    }
}

/// Who reported an event that the caller took part in, as its item says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportedBy {
    Own,
    /// Another one, by a click token of the caller's.
    Other,
}

impl ReportedBy {
    /// As answers and requests name it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Own => "self",
            Self::Other => "other",
        }
    }
}

/// A name and what was given for it.
type Given<'a> = (&'static str, Option<&'a String>);

impl FilterParameters {
    /// Names and values of all of them.
    pub(crate) fn given(&self) -> [Given<'_>; 6] {
        let [event_type, agent_id, platform_id] = self.given_of_owners();
        let [reported_by] = self.given_of_own();
        let [path] = self.given_of_urls();
        [event_type, agent_id, platform_id, reported_by, path, ("outcome", self.outcome.as_ref())]
    }

    /// Those that narrow an owner's list.
    pub(crate) fn given_of_owners(&self) -> [Given<'_>; 3] {
        [
            ("event_type", self.event_type.as_ref()),
            ("agent_id", self.agent_id.as_ref()),
            ("platform_id", self.platform_id.as_ref()),
        ]
    }

    /// Those that narrow the list of one's own events.
    pub(crate) fn given_of_own(&self) -> [Given<'_>; 1] {
        [("reported_by", self.reported_by.as_ref())]
    }

    /// Those that narrow a list of URLs.
    pub(crate) fn given_of_urls(&self) -> [Given<'_>; 1] {
        [("path", self.path.as_ref())]
    }

    /// What narrows a list of URLs, which from then on is not given.
    pub(crate) fn take_path(&mut self) -> Option<String> {
        self.path.take()
    }

    /// Takes the outcome that fetches must have. Returns 400 for a value that is none.
    pub(crate) fn take_outcome(&mut self) -> Result<Option<Outcome>, ApiError> {
        let read =
            |name: String| Outcome::named(&name).ok_or_else(|| refused("outcome must be one of: fetch, revalidation, failed."));
        self.outcome.take().map(read).transpose()
    }

    /// Reads what narrows the list of one's own events.
    pub(crate) fn reported_by(&self) -> Result<Option<ReportedBy>, ApiError> {
        match self.reported_by.as_deref() {
            None => Ok(None),
            Some("self") => Ok(Some(ReportedBy::Own)),
            Some("other") => Ok(Some(ReportedBy::Other)),
            Some(_) => Err(refused("reported_by must be one of: self, other.")),
        }
    }

    /// Reads what narrows an owner's list, or says which one is wrong.
    pub(crate) fn parse(mut self) -> Result<EventFilter, ApiError> {
        let outcome = self.take_outcome()?;
        let platform_id = self.platform_id.as_deref().map(Uuid::try_parse).transpose();
        let platform_id = platform_id.map_err(|_| refused("platform_id must be a UUID."))?;
        if self.event_type.as_ref().is_some_and(String::is_empty) {
            return Err(refused("event_type must not be empty."));
        }
        // The store takes no NUL in a parameter, and nothing that was reported holds one.
        let holds_nul = |value: &Option<String>| value.as_ref().is_some_and(|value| value.contains('\0'));
        if holds_nul(&self.event_type) || holds_nul(&self.agent_id) {
            return Err(refused("Filters must not contain NUL characters."));
        }
        Ok(EventFilter { event_type: self.event_type, agent_id: self.agent_id, platform_id, outcome })
    }
}

fn refused(detail: &str) -> ApiError {
    ApiError::new(Code::InvalidParameter, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(event_type: Option<&str>, agent_id: Option<&str>, platform_id: Option<&str>) -> Option<EventFilter> {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let (event_type, agent_id, platform_id) = (text(event_type), text(agent_id), text(platform_id));
        FilterParameters { event_type, agent_id, platform_id, ..FilterParameters::default() }.parse().ok()
    }

    #[test]
    fn a_filter_is_a_text_without_nul_and_a_platform_is_a_uuid() {
        assert_eq!(parsed(None, None, None), Some(EventFilter::default()));
        let unnamed = EventFilter { agent_id: Some(String::new()), ..EventFilter::default() };
        assert_eq!(parsed(None, Some(""), None), Some(unnamed));
        for (event_type, agent_id, platform_id) in [
            (Some(""), None, None),
            (Some("a\0"), None, None),
            (None, Some("\0"), None),
            (None, None, Some("")),
            (None, None, Some("x")),
        ] {
            assert_eq!(parsed(event_type, agent_id, platform_id), None, "{event_type:?} {agent_id:?} {platform_id:?}");
        }
    }

    #[test]
    fn who_reported_is_oneself_or_another_as_items_name_them() {
        let asked = |reported_by: Option<&str>| {
            let reported_by = reported_by.map(str::to_owned);
            FilterParameters { reported_by, ..FilterParameters::default() }.reported_by().ok()
        };
        assert_eq!(asked(None), Some(None));
        for known in [ReportedBy::Own, ReportedBy::Other] {
            assert_eq!(asked(Some(known.as_str())), Some(Some(known)));
        }
        for unknown in ["", "Self", "others", "self,other", "other "] {
            assert_eq!(asked(Some(unknown)), None, "{unknown}");
        }
    }

    #[test]
    fn an_outcome_is_one_of_three_names() {
        let take = |outcome: Option<&str>| {
            let outcome = outcome.map(str::to_owned);
            FilterParameters { outcome, ..FilterParameters::default() }.take_outcome().ok()
        };
        assert_eq!(take(None), Some(None));
        for known in [Outcome::Fetch, Outcome::Revalidation, Outcome::Failed] {
            assert_eq!(take(Some(known.as_str())), Some(Some(known)));
        }
        for unknown in ["", "Fetch", "fetch,failed", "fetch "] {
            assert_eq!(take(Some(unknown)), None, "{unknown}");
        }
    }
}
