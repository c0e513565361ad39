//! The context for validating an event, and the event as read.

use super::EnvelopeFacts;
use super::strict::DocumentKind;
use crate::request::limits::Limits;
use crate::request::raw_json::RawObject;
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
    /// The organization whose sessions the request names.
    pub(crate) reporter: OrgId,
    pub(crate) session_id: Option<SessionId>,
    pub(crate) agent_id: Option<String>,
    pub(crate) ctx_token: Option<String>,
    pub(crate) privacy_level: Option<PrivacyLevel>,
    /// The envelope's other facts about the session.
    pub(crate) envelope_facts: EnvelopeFacts,
    /// Whether the document's session or token is invalid. That is a fault of its own, so its events don't need one.
    pub(crate) is_binding_unclear: bool,
    /// Whether every event belongs to the request's session.
    pub(crate) is_whole_session: bool,
    /// Whether the version is missing or older than 1.0, so old member names keep their meaning.
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
            envelope_facts: EnvelopeFacts::default(),
            is_binding_unclear: false,
            is_whole_session: false,
            is_before_1_0: true,
            is_strict: limits.strict || caller.strict,
        }
    }

    pub(super) fn document_kind(&self) -> DocumentKind {
        if self.is_whole_session { DocumentKind::Session } else { DocumentKind::Envelope { has_token: self.ctx_token.is_some() } }
    }
}

/// An event whose members were read. It is valid if no fault was added for it.
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
