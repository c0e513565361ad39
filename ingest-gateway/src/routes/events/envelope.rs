//! The envelope of `POST /events`: `events` or one `event`, depending on `document_type` (docs/api/events.md#envelope).

use crate::request::limits::Limits;
use crate::request::raw_json::{RawObject, as_str};
use crate::request::write_request;
use crate::sessions::privacy_level;
use crate::validate::{Context, EnvelopeFacts, Faults, Member, strict, typed_members};
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
    privacy_level: Option<PrivacyLevel>,
    pub(crate) events: Vec<&'a RawValue>,
    members: RawObject<'a>,
}

impl<'a> Envelope<'a> {
    /// Parses the envelope. Returns 400 unless it is a JSON object, and 422 with every broken rule.
    pub(crate) fn parse(body: &'a [u8], max_events: usize) -> Result<Self, ApiError> {
        let members = write_request::read_object(body)?;
        write_request::require_once(&members, KNOWN)?;

        let mut faults = Faults::default();
        write_request::check_version(&members, &mut faults);
        let events = find_events(&members, max_events, &mut faults);
        let privacy_level = privacy_level(&members, &mut faults);
        faults.into_result()?;
        Ok(Self { privacy_level, events, members })
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
        let (session, token) = (self.members.get("session_id"), self.members.get("ctx_token"));
        let session_id = typed_members::session(session, Member("session_id"), faults);
        let ctx_token = typed_members::text(token, Member("ctx_token"), faults);
        Context {
            is_binding_unclear: (session.is_some() && session_id.is_none()) || (token.is_some() && ctx_token.is_none()),
            session_id,
            agent_id: typed_members::text(self.members.get("agent_id"), Member("agent_id"), faults),
            ctx_token,
            privacy_level: self.privacy_level,
            envelope_facts: EnvelopeFacts::from_envelope(&self.members),
            is_before_1_0: write_request::is_before_1_0(&self.members),
            ..context
        }
    }
}

fn find_events<'a>(members: &RawObject<'a>, max_events: usize, faults: &mut Faults) -> Vec<&'a RawValue> {
    if members.get("session").is_some() {
        faults.add(Member("session"), "not_allowed", "session is not allowed; send a whole session to POST /sessions/bulk");
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
        (_, Some(events), None) => {
            let events = write_request::list_events(events, max_events, faults);
            if events.as_ref().is_some_and(Vec::is_empty) {
                faults.add(Member("events"), "empty", "events must contain at least one event");
            }
            return events.unwrap_or_default();
        }
        (_, None, None) => faults.add(Member("events"), "required", "events is required"),
    }
    Vec::new()
}
