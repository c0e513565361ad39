//! Creates an `event_batch` document from the reports of one observer, agent and session. Pure.

use crate::event_data::{self, Members, StoredEvent};
use crate::reads::ExportedReport;
use crate::statements::OpaqueIds;
use chrono::DateTime;
use schemas::event::SourceRole;
use schemas::ids::OrgId;
use schemas::instant;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use store::facts::CONTENT_RETRIEVED;
use uuid::Uuid;

#[skip_serializing_none]
#[derive(Serialize)]
struct EventBatch<'a> {
    document_type: &'static str,
    schema_version: &'static str,
    session_id: Option<Uuid>,
    agent_id: Option<&'a str>,
    events: Vec<Event<'a>>,
    extensions: Extensions,
}

#[derive(Serialize)]
struct Extensions {
    observer: Observer,
}

/// The organization that reported the events.
#[derive(Serialize)]
struct Observer {
    /// The same in every export and evidence file of the owner.
    id: String,
    is_owner: bool,
}

#[skip_serializing_none]
#[derive(Serialize)]
struct Event<'a> {
    id: String,
    r#type: &'a str,
    timestamp: String,
    source_role: Option<&'static str>,
    content_url: Option<&'a str>,
    content_id: Option<&'a str>,
    content_telemetry_id: Option<String>,
    turn_id: Option<&'a str>,
    output_id: Option<&'a str>,
    data: Option<Members>,
    #[serde(flatten)]
    others: Members,
}

pub(super) struct Composer<'a> {
    pub(super) owner: OrgId,
    pub(super) ids: &'a mut OpaqueIds,
    /// Whether the session's level permits showing unknown members of `data`.
    pub(super) is_full: bool,
}

impl Composer<'_> {
    /// Returns a line with the reports, which must not be empty.
    pub(super) fn document(&mut self, reports: &[ExportedReport]) -> Vec<u8> {
        let Some(first) = reports.first() else { return Vec::new() };
        let organization = first.content.organization;
        let document = EventBatch {
            document_type: "event_batch",
            schema_version: "1.0",
            session_id: self.session(first),
            agent_id: given(&first.listed.agent),
            events: reports.iter().map(|report| self.event(report)).collect(),
            extensions: Extensions {
                observer: Observer { id: self.ids.opaque(organization), is_owner: organization == self.owner.0 },
            },
        };
        let mut line = serde_json::to_vec(&document).expect("texts and valid values are valid JSON");
        line.push(b'\n');
        line
    }

    /// Returns the session. Replaces one that the owner may not see, because most events require a session.
    fn session(&self, report: &ExportedReport) -> Option<Uuid> {
        let (platform, session) = (report.content.platform, report.content.session);
        if session.is_nil() || report.listed.shows_agent {
            return session_of(report);
        }
        let digests = Uuid::from_u64_pair(self.ids.session(platform, session), self.ids.response(platform, session, "export"));
        Some(uuid::Builder::from_random_bytes(digests.into_bytes()).into_uuid())
    }

    fn event<'r>(&self, report: &'r ExportedReport) -> Event<'r> {
        let (listed, content) = (&report.listed, &report.content);
        let key = || Uuid::from_u128(listed.event_key).to_string();
        let (data, others) = event_data::exported(stored(report), self.is_full);
        // A report that repeats its observer's correlation ID is an event of its own, also where it is reported again.
        let is_apart = content.r#type == CONTENT_RETRIEVED && !listed.is_joined;
        let telemetry_id = given(&content.content_telemetry_id);
        Event {
            id: given(&content.event_id).map_or_else(key, str::to_owned),
            r#type: &content.r#type,
            timestamp: instant::text(DateTime::from_timestamp_millis(content.at_ms).unwrap_or_default()),
            source_role: SourceRole::from_code(content.source_role).map(SourceRole::as_str),
            content_url: given(&content.url),
            content_id: given(&content.content_id),
            content_telemetry_id: telemetry_id.map(|id| if is_apart { key() } else { id.to_owned() }),
            turn_id: given(&content.turn_id),
            output_id: given(&content.output_id),
            data: (!content.data.is_empty()).then_some(data),
            others,
        }
    }
}

/// Returns the session if it belongs to the reporter and its owner may see it.
pub(super) fn session_of(report: &ExportedReport) -> Option<Uuid> {
    Some(report.content.session).filter(|session| !session.is_nil() && report.listed.shows_agent)
}

fn stored(report: &ExportedReport) -> StoredEvent<'_> {
    StoredEvent { event_type: &report.content.r#type, data: &report.content.data, extra: &report.content.extra }
}

/// Returns whether the document depends on the session's privacy level.
pub(super) fn depends_on_level(report: &ExportedReport) -> bool {
    event_data::has_members_by_level(stored(report))
}

fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}
