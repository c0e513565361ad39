//! The events of one session, as its own organisation reported them.
//!
//! Must not bring what others reported into a session that a click token bound: that is theirs to tell.

use super::{Telemetry, is_too_large, refused};
use crate::session_scope::SessionScope;
use schemas::store::OBSERVATIONS;
use serde::Deserialize;
use service_kit::http::ApiError;

/// Events of one session that are read at most, oldest first.
const MAX_EVENTS: usize = 50_000;

/// Bytes of one session at most.
const MAX_BYTES: &str = "67108864";

/// One reported event.
#[derive(Clone, Debug, Default, clickhouse::Row, Deserialize)]
pub(crate) struct SessionEvent {
    pub(crate) key: u128,
    pub(crate) observer: u8,
    pub(crate) site: String,
    pub(crate) event_type: String,
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

/// What was read of a session.
pub(crate) struct SessionEvents {
    /// Oldest first.
    pub(crate) events: Vec<SessionEvent>,
    /// Whether these are all there are.
    pub(crate) is_whole: bool,
}

/// Which events of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionPart {
    /// What a manifest is made of: grounded, cited and presented content, and the turns for their privacy level.
    Disclosable,
    /// Everything.
    Whole,
}

/// The rows of a session are found by their projection, and then by the sorting key, whatever session their repeats name.
/// `LIMIT 1 BY` keeps of each the one that FINAL would keep, the oldest report, without merging the whole granules around it.
pub(super) fn statement(part: SessionPart) -> String {
    let types = match part {
        SessionPart::Disclosable => {
            " AND event_type IN ('content_grounded', 'content_cited', 'content_presented', 'turn_started', 'turn_completed')"
        }
        SessionPart::Whole => "",
    };
    let session = "platform_id = {org:UUID} AND session_id = {session:UUID}";
    format!(
        "SELECT event_key AS key, observer, site, toString(event_type) AS event_type, toUnixTimestamp64Milli(at) AS at_ms, \
           toUInt8(source_role) AS role, toString(agent_id) AS agent_id, content_url, content_id, content_telemetry_id, event_id, turn_id, output_id, data, extra \
         FROM ( \
           SELECT * FROM {OBSERVATIONS} \
           WHERE (site, event_key) IN (SELECT site, event_key FROM {OBSERVATIONS} WHERE {session}) AND org_id = {{org:UUID}} \
           ORDER BY version DESC LIMIT 1 BY site, event_key, org_id, observer) \
         WHERE {session}{types} \
         ORDER BY at, version DESC, event_key, observer, site LIMIT {MAX_EVENTS} + 1"
    )
}

impl Telemetry {
    /// The session's events.
    pub(crate) async fn session_events(&self, scope: SessionScope, part: SessionPart) -> Result<SessionEvents, ApiError> {
        let query = self.client.query(&statement(part)).with_setting("max_result_bytes", MAX_BYTES);
        let query = query.param("org", scope.org().to_string()).param("session", scope.session().to_string());
        let mut events = tokio::select! {
            rows = query.fetch_all::<SessionEvent>() => match rows {
                // It will not be less when asked again: a document of it is refused as too large.
                Err(error) if part == SessionPart::Whole && is_too_large(&error) => {
                    return Ok(SessionEvents { events: Vec::new(), is_whole: false });
                }
                rows => rows.map_err(refused)?,
            },
            () = self.until_away() => return Err(ApiError::unavailable(anyhow::anyhow!("ClickHouse hangs"))),
        };
        let is_whole = events.len() <= MAX_EVENTS;
        events.truncate(MAX_EVENTS);
        Ok(SessionEvents { events, is_whole })
    }
}
