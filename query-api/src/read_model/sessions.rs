//! The events of one session: what its own organisation reported, and apart from it what others did with its click tokens.
//!
//! Must not let those others decide what is read of the organisation's own: whoever has a token can report any number.

use super::shards::Shards;
use super::{Telemetry, is_too_large, refused};
use crate::access::session_scope::SessionScope;
use crate::event_data::{manifest, shown};
use schemas::problem::Code;
use schemas::store::OBSERVATIONS;
use serde::Deserialize;
use service_kit::http::ApiError;

/// Events of one session that are read at most, oldest first.
const MAX_EVENTS: usize = 50_000;

/// The types that a click token can bind and of whose `data` anything is shown.
const CLICK_TYPES: [&str; 2] = ["content_engaged", "checkout_completed"];

/// Bytes of a value that a manifest shows, as JSON: no word of a vocabulary is as long, whatever its escapes.
const MAX_VALUE: usize = 512;

/// Events of others that are read at most, those accepted first.
const MAX_CLICKS: usize = 1_000;

/// Bytes of one session at most, and of what a manifest is made of: all of it is looked through for the session's id.
const MAX_BYTES: &str = "67108864";
const MAX_MANIFEST_BYTES: &str = "33554432";

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
    /// Oldest first; of a manifest's what it may need, and nothing else.
    pub(crate) events: Vec<SessionEvent>,
    /// Whether these are all there are.
    pub(crate) is_whole: bool,
}

/// Which events of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionPart {
    /// What a manifest is made of: grounded, cited and presented content, and the turns for their privacy level.
    Disclosable,
    /// Everything that its organisation reported.
    Whole,
    /// What others bound to it by a click token.
    Clicks,
}

impl SessionPart {
    fn max_events(self) -> usize {
        if self == Self::Clicks { MAX_CLICKS } else { MAX_EVENTS }
    }

    fn max_bytes(self) -> &'static str {
        if self == Self::Disclosable { MAX_MANIFEST_BYTES } else { MAX_BYTES }
    }
}

/// The rows of a session are found by their projection, and then by the sorting key, whatever session their repeats name.
/// `LIMIT 1 BY` keeps of each the one that FINAL would keep, the oldest report, without merging the whole granules around it.
pub(super) fn statement(part: SessionPart, shards: &Shards) -> String {
    let types = match part {
        SessionPart::Disclosable => {
            " AND event_type IN ('content_grounded', 'content_cited', 'content_presented', 'turn_started', 'turn_completed')"
        }
        SessionPart::Whole | SessionPart::Clicks => "",
    };
    // The order of acceptance cannot be made up: nobody crowds out what was there before.
    let order = match part {
        SessionPart::Clicks => "version DESC, event_key, observer, site",
        _ => "at, version DESC, event_key, observer, site",
    };
    let whose = whose(part);
    let most = part.max_events();
    let [data, extra, content_id, content_telemetry_id, event_id, agent_id] = texts(part);
    let firsts = shards.each(&format!(
        "SELECT event_key, observer, site, org_id, platform_id, session_id, event_type, at, source_role, version, content_url, \
           turn_id, output_id, ({data}, {extra}, {content_id}, {content_telemetry_id}, {event_id}, {agent_id}) AS texts \
         FROM {OBSERVATIONS} \
         WHERE (site, event_key) IN ({keys}) AND {whose}{is_below} \
         ORDER BY version DESC LIMIT 1 BY site, event_key, org_id, observer",
        keys = keys(part),
        is_below = shards.is_below_watermark(),
    ));
    format!(
        "SELECT event_key AS key, observer, site, toString(event_type) AS event_type, toUnixTimestamp64Milli(at) AS at_ms, \
           toUInt8(source_role) AS role, content_url, turn_id, output_id, texts.1 AS data, texts.2 AS extra, texts.3 AS content_id, \
           texts.4 AS content_telemetry_id, texts.5 AS event_id, texts.6 AS agent_id \
         FROM ( {firsts}) \
         WHERE {SESSION}{types} \
         ORDER BY {order} LIMIT {most} + 1",
    )
}

const SESSION: &str = "platform_id = {org:UUID} AND session_id = {session:UUID}";

/// Where the rows of a session lie.
pub(super) fn keys(part: SessionPart) -> String {
    format!("SELECT site, event_key FROM {OBSERVATIONS} WHERE {SESSION} AND {}", whose(part))
}

/// Who reported them, compared as a number: as an id it has a projection, which would be read too, with all that the organisation
/// has ever reported.
fn whose(part: SessionPart) -> &'static str {
    match part {
        SessionPart::Clicks => "toUInt128(org_id) != toUInt128({org:UUID})",
        _ => "toUInt128(org_id) = toUInt128({org:UUID})",
    }
}

/// The texts of an event that can be large. Of a manifest the members that it may show and the level of a turn: what they
/// are taken out of may be a thousand times as long. What ClickHouse does not read as JSON, such as a number that no 64 bits
/// hold, is taken whole.
fn texts(part: SessionPart) -> [String; 6] {
    if part == SessionPart::Whole {
        let whole = ["data", "extra", "content_id", "content_telemetry_id", "event_id", "toString(agent_id)"];
        return whole.map(str::to_owned);
    }
    let names: Vec<String> = match part {
        SessionPart::Clicks => CLICK_TYPES.iter().flat_map(|of| shown::of_click(of)).map(|name| format!("'{name}'")).collect(),
        _ => manifest::members_of_data().map(|name| format!("'{name}'")).collect(),
    };
    let members = "JSONExtractKeysAndValuesRaw(data)";
    let data = format!(
        "multiIf(startsWith(event_type, 'turn_'), '', empty({members}), data, \
           concat('{{', arrayStringConcat(arrayMap(member -> concat('\"', member.1, '\":', member.2), \
             arrayFilter(member -> member.1 IN ({names}) AND length(member.2) <= {MAX_VALUE}, {members})), ','), '}}'))",
        names = names.join(", "),
    );
    if part == SessionPart::Clicks {
        return [&data, "''", "''", "''", "''", "''"].map(str::to_owned);
    }
    let level = "JSONExtractRaw(extra, 'turn', 'privacy_level')";
    let extra = format!(
        "multiIf(NOT startsWith(event_type, 'turn_'), '', NOT isValidJSON(extra), extra, JSONType(extra, 'turn') != 'Object', '', \
           length({level}) BETWEEN 1 AND {MAX_VALUE}, concat('{{\"turn\":{{\"privacy_level\":', {level}, '}}}}'), '{{\"turn\":{{}}}}')"
    );
    [data, extra, "''".to_owned(), "''".to_owned(), "''".to_owned(), "''".to_owned()]
}

impl Telemetry {
    /// The session's events.
    pub(crate) async fn session_events(&self, scope: SessionScope, part: SessionPart) -> Result<SessionEvents, ApiError> {
        let shards = self.shards_now().await?;
        let query = self.client.query(&statement(part, &shards)).with_setting("max_result_bytes", part.max_bytes());
        // What is large goes before the rows are sorted, not after.
        let query = query.with_setting("query_plan_execute_functions_after_sorting", "0");
        let query = query.param("org", scope.org().to_string()).param("session", scope.session().to_string());
        let mut events = tokio::select! {
            rows = query.fetch_all::<SessionEvent>() => match rows {
                // It will not be less when asked again.
                Err(error) if is_too_large(&error) => {
                    return Err(ApiError::new(Code::TooLarge, "The session is too large to read at once. Page through its events with GET /agent/events."));
                }
                rows => rows.map_err(refused)?,
            },
            () = self.until_away() => return Err(ApiError::unavailable(anyhow::anyhow!("ClickHouse hangs"))),
        };
        let is_whole = events.len() <= part.max_events();
        events.truncate(part.max_events());
        Ok(SessionEvents { events, is_whole })
    }
}
