//! Which events of a list are wanted: those of a type, of an agent, of a platform.
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
}

/// What the items of a list have in common; a member that is none is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventFilter {
    pub(crate) event_type: Option<String>,
    /// Empty: no agent is named.
    pub(crate) agent_id: Option<String>,
    pub(crate) platform_id: Option<Uuid>,
}

impl FilterParameters {
    /// Names and values.
    pub(crate) fn given(&self) -> [(&'static str, Option<&String>); 3] {
        [
            ("event_type", self.event_type.as_ref()),
            ("agent_id", self.agent_id.as_ref()),
            ("platform_id", self.platform_id.as_ref()),
        ]
    }

    /// Reads them, or says which one is wrong.
    pub(crate) fn parse(self) -> Result<EventFilter, ApiError> {
        let platform_id = self.platform_id.as_deref().map(Uuid::try_parse).transpose();
        let platform_id = platform_id.map_err(|_| refused("The parameter platform_id is no UUID."))?;
        if self.event_type.as_ref().is_some_and(String::is_empty) {
            return Err(refused("The parameter event_type is empty."));
        }
        // The store takes no NUL in a parameter, and nothing that was reported holds one.
        let holds_nul = |value: &Option<String>| value.as_ref().is_some_and(|value| value.contains('\0'));
        if holds_nul(&self.event_type) || holds_nul(&self.agent_id) {
            return Err(refused("A filter holds a NUL character."));
        }
        Ok(EventFilter { event_type: self.event_type, agent_id: self.agent_id, platform_id })
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
        let asked = FilterParameters { event_type: text(event_type), agent_id: text(agent_id), platform_id: text(platform_id) };
        asked.parse().ok()
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
}
