//! The envelope of `POST /events`: `events` or one `event`, whichever `document_type` says (docs/api/events.md#envelope).

use crate::request::bodies;
use crate::request::limits::Limits;
use crate::request::raw::{RawObject, as_array, as_str};
use crate::sessions::privacy_level;
use crate::validate::{Context, EnvelopeFacts, Faults, Member, members, strict};
use chrono::{DateTime, Utc};
use schemas::session::PrivacyLevel;
use serde_json::value::RawValue;
use service_kit::auth::Caller;
use service_kit::http::ApiError;

const KNOWN: &[&str] = &[
    "document_type",
    "schema_version",
    "session_id",
    "parent_session_id",
    "agent_id",
    "ctx_token",
    "started_at",
    "manifest_ref",
    "events",
    "event",
    "session",
    "privacy_level",
];

#[derive(Debug)]
pub(crate) struct Envelope<'a> {
    pub(crate) session_id: Option<&'a RawValue>,
    pub(crate) agent_id: Option<&'a RawValue>,
    pub(crate) ctx_token: Option<&'a RawValue>,
    pub(crate) privacy_level: Option<PrivacyLevel>,
    pub(crate) told: EnvelopeFacts,
    pub(crate) events: Vec<&'a RawValue>,
    pub(crate) members: RawObject<'a>,
}

impl<'a> Envelope<'a> {
    /// Reads the envelope: 400 for what is not a JSON object, 422 with every fault for what breaks a rule.
    pub(crate) fn parse(body: &'a [u8], max_events: usize) -> Result<Self, ApiError> {
        let members = bodies::as_object(bodies::as_text(body)?)?;
        bodies::require_once(&members, KNOWN)?;

        let mut faults = Faults::default();
        bodies::check_version(&members, &mut faults);
        let events = find_events(&members, max_events, &mut faults);
        let privacy_level = privacy_level(&members, &mut faults);
        faults.into_result()?;
        Ok(Self {
            privacy_level,
            told: EnvelopeFacts::by(&members),
            session_id: members.get("session_id"),
            agent_id: members.get("agent_id"),
            ctx_token: members.get("ctx_token"),
            events,
            members,
        })
    }

    pub(crate) fn context<'l>(
        &self,
        limits: &'l Limits,
        now: DateTime<Utc>,
        caller: &Caller,
        faults: &mut Faults,
    ) -> Context<'l> {
        let context = Context::new(limits, now, caller);
        if context.is_strict {
            strict::check_envelope(&self.members, &self.events, faults);
        }
        let session_id = members::session(self.session_id, Member("session_id"), faults);
        let ctx_token = members::text(self.ctx_token, Member("ctx_token"), faults);
        Context {
            is_binding_unclear: (self.session_id.is_some() && session_id.is_none())
                || (self.ctx_token.is_some() && ctx_token.is_none()),
            session_id,
            agent_id: members::text(self.agent_id, Member("agent_id"), faults),
            ctx_token,
            privacy_level: self.privacy_level,
            told: self.told.clone(),
            is_before_1_0: bodies::is_before_1_0(&self.members),
            ..context
        }
    }
}

fn find_events<'a>(members: &RawObject<'a>, max_events: usize, faults: &mut Faults) -> Vec<&'a RawValue> {
    if members.get("session").is_some() {
        faults.add(Member("session"), "not_allowed", "send a whole session to POST /sessions/bulk");
        return Vec::new();
    }
    let document_type = members.get("document_type").map(as_str);
    match (document_type, members.get("events"), members.get("event")) {
        (Some(None), ..) => faults.add(Member("document_type"), "wrong_type", "document_type must be a string"),
        (Some(Some(kind)), ..) if kind != "event_batch" && kind != "event" => {
            faults.add(Member("document_type"), "unknown_value", "document_type must be \"event_batch\" or \"event\"");
        }
        (_, Some(_), Some(_)) => faults.add(Member("event"), "not_allowed", "send either events or event, not both"),
        (_, None, Some(event)) => return vec![event],
        (_, Some(events), None) => return list_events(events, max_events, faults),
        (_, None, None) => faults.add(Member("events"), "required", "events is required"),
    }
    Vec::new()
}

fn list_events<'a>(events: &'a RawValue, max_events: usize, faults: &mut Faults) -> Vec<&'a RawValue> {
    match as_array(events) {
        None => faults.add(Member("events"), "wrong_type", "events must be an array"),
        Some(events) if events.is_empty() => faults.add(Member("events"), "empty", "events must contain at least one event"),
        Some(events) if events.len() > max_events => {
            faults.add(
                Member("events"),
                "too_many",
                format!("events contains {} events; the maximum is {max_events}", events.len()),
            );
        }
        Some(events) => return events,
    }
    Vec::new()
}
