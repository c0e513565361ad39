//! The reports of one session: its own organization's reports and, separately, others' reports with its click tokens.
//!
//! Others' reports never displace the organization's own, because everyone with a token can report any number of clicks.
//! `reads::list_tests::sessions` compares both parts with a model.

use super::Reads;
use super::statement::Statement;
use crate::access::session_scope::SessionScope;
use crate::event_data::{manifest_members, visible_members};
use schemas::problem::Code;
use serde::Deserialize;
use service_kit::http::ApiError;

/// Maximum number of reports per session, oldest first.
const MAX_EVENTS: u64 = 50_000;
/// Maximum number of others' clicks, in order of acceptance.
const MAX_CLICKS: u64 = 1_000;
/// Maximum session size.
const MAX_BYTES: u64 = 64 << 20;
/// Maximum size of a manifest's reports, which are all searched for the session's id.
const MAX_MANIFEST_BYTES: u64 = 32 << 20;
/// Maximum size of a `data` value in a manifest or a click, in bytes of JSON. Every standard keyword fits, even if it is escaped.
const MAX_VALUE_BYTES: u64 = 512;
/// Event types that can have a click token and whose `data` is partly shown.
const CLICK_TYPES: [&str; 2] = ["content_engaged", "checkout_completed"];

#[derive(Clone, Debug, Default, clickhouse::Row, Deserialize)]
pub(crate) struct SessionEvent {
    pub(crate) key: u128,
    pub(crate) site: String,
    pub(crate) event_type: String,
    /// Milliseconds since 1970.
    pub(crate) at_ms: i64,
    pub(crate) role: u8,
    pub(crate) agent_id: String,
    pub(crate) content_url: String,
    pub(crate) content_id: String,
    pub(crate) content_telemetry_id: String,
    pub(crate) event_id: String,
    pub(crate) turn_id: String,
    pub(crate) output_id: String,
    pub(crate) data: String,
    pub(crate) extra: String,
}

pub(crate) struct SessionEvents {
    /// Oldest first. For a manifest, only the events that it may need.
    pub(crate) events: Vec<SessionEvent>,
    pub(crate) is_whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionPart {
    /// A manifest's reports: grounded, cited and presented content, and turns for their privacy level.
    Disclosable,
    /// All of its organization's reports.
    Whole,
    /// Others' reports with the session's click tokens.
    Clicks,
}

impl Reads {
    /// Returns a session's reports, or 413 if they are too large.
    pub(crate) async fn session_events(&self, scope: SessionScope, part: SessionPart) -> Result<SessionEvents, ApiError> {
        let (most, most_bytes) = limits(part);
        let statement = statement(part)
            .with("organization", scope.org().to_string())
            .with("session", scope.session().to_string())
            .with("limit", most + 1);
        let query = statement
            .query(&self.client)
            .with_setting("max_result_bytes", most_bytes.to_string())
            // Truncate long strings before sorting, which makes sorting cheaper.
            .with_setting("query_plan_execute_functions_after_sorting", "0");
        let events: Result<Vec<SessionEvent>, ApiError> = self.all_of(query).await;
        let mut events = events.map_err(|error| if error.code() == Code::TooLarge { too_large() } else { error })?;
        let is_whole = events.len() as u64 <= most;
        events.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(SessionEvents { events, is_whole })
    }
}

fn too_large() -> ApiError {
    ApiError::new(Code::TooLarge, "The session is too large to read at once. Page through its events with GET /agent/events.")
}

fn limits(part: SessionPart) -> (u64, u64) {
    match part {
        SessionPart::Disclosable => (MAX_EVENTS, MAX_MANIFEST_BYTES),
        SessionPart::Whole => (MAX_EVENTS, MAX_BYTES),
        SessionPart::Clicks => (MAX_CLICKS, MAX_BYTES),
    }
}

fn statement(part: SessionPart) -> Statement {
    let (sql, members): (_, Vec<&str>) = match part {
        SessionPart::Whole => return Statement::new(include_str!("../../sql/session_document.sql")),
        SessionPart::Disclosable => (include_str!("../../sql/manifest.sql"), manifest_members::members_of_data().collect()),
        SessionPart::Clicks => (
            include_str!("../../sql/session_clicks.sql"),
            CLICK_TYPES.into_iter().flat_map(visible_members::click_members).copied().collect(),
        ),
    };
    let members: Vec<String> = members.into_iter().map(str::to_owned).collect();
    Statement::new(sql).with("members", members).with("max_bytes", MAX_VALUE_BYTES)
}
