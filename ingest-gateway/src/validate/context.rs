//! What an event is checked against, and what it is once it was read.

use super::EnvelopeFacts;
use super::strict::Around;
use crate::request::limits::Limits;
use crate::request::raw::RawObject;
use chrono::{DateTime, Utc};
use schemas::event::{EventType, SourceRole};
use schemas::ids::{OrgId, SessionId};
use schemas::session::PrivacyLevel;
use schemas::site::ContentUrl;
use serde_json::value::RawValue;
use service_kit::auth::Caller;

pub(crate) struct Context<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) now: DateTime<Utc>,
    /// Whose sessions the request names.
    pub(crate) reporter: OrgId,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) agent_id: Option<String>,
    pub(crate) ctx_token: Option<String>,
    /// Declared by the envelope or the session; absent says nothing.
    pub(crate) privacy_level: Option<PrivacyLevel>,
    /// What the envelope says of its session besides.
    pub(crate) told: EnvelopeFacts,
    /// The document's session or token does not parse: a fault of its own, so none is missed on its events.
    pub(crate) is_binding_unclear: bool,
    /// Every event belongs to the one session that the request carries.
    pub(crate) is_whole_session: bool,
    /// No version is declared, or one older than 1.0: old names mean what they meant.
    pub(crate) is_before_1_0: bool,
    pub(crate) is_strict: bool,
}

impl<'a> Context<'a> {
    pub(crate) fn new(limits: &'a Limits, now: DateTime<Utc>, caller: &Caller) -> Self {
        Self {
            limits,
            now,
            reporter: caller.org_id,
            session_id: None,
            agent_id: None,
            ctx_token: None,
            privacy_level: None,
            told: EnvelopeFacts::default(),
            is_binding_unclear: false,
            is_whole_session: false,
            is_before_1_0: true,
            is_strict: limits.strict || caller.strict,
        }
    }

    pub(super) fn around(&self) -> Around {
        if self.is_whole_session { Around::Session } else { Around::Envelope { has_token: self.ctx_token.is_some() } }
    }
}

/// An event with its members read. It keeps every rule when no fault was added for it.
#[derive(Debug)]
pub(crate) struct ValidEvent<'a> {
    pub(crate) id: Option<String>,
    pub(crate) event_type: EventType,
    pub(crate) at_ms: i64,
    pub(crate) source_role: Option<SourceRole>,
    pub(crate) content_url: Option<ContentUrl>,
    pub(crate) content_id: Option<String>,
    pub(crate) content_telemetry_id: Option<String>,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) ctx_token: Option<String>,
    pub(crate) turn_id: Option<String>,
    pub(crate) output_id: Option<String>,
    pub(crate) data: Option<&'a RawValue>,
    pub(crate) turn: Option<&'a RawValue>,
    pub(crate) privacy_level: Option<PrivacyLevel>,
    pub(crate) members: RawObject<'a>,
}
