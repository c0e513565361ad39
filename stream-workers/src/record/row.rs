//! A report as the tables store it, before it is merged.

use schemas::bots::Purpose;
use schemas::clicks::ClickLink;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::ids::DrainId;
use schemas::log::{LogEvent, LogRecord};
use schemas::report_keys::ReportKeys;
use uuid::Uuid;

/// A report: one event of a record. store/clickhouse/reports.sql documents the members that are columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportRow {
    pub(crate) site: String,
    pub(crate) org_id: Uuid,
    pub(crate) source_role: u8,
    pub(crate) event_type: String,
    /// Milliseconds since 1970.
    pub(crate) at: i64,
    pub(crate) session_id: Uuid,
    pub(crate) platform_id: Uuid,
    pub(crate) link: i8,
    pub(crate) link_site: String,
    pub(crate) agent_id: String,
    pub(crate) content_url: String,
    pub(crate) content_id: String,
    pub(crate) content_telemetry_id: String,
    pub(crate) event_id: String,
    pub(crate) turn_id: String,
    pub(crate) output_id: String,
    pub(crate) data: String,
    pub(crate) extra: String,
    pub(crate) bot: String,
    pub(crate) operator: String,
    pub(crate) purpose: String,
    pub(crate) verified: i8,
    pub(crate) response_status: u16,
    pub(crate) response_bytes: u64,
    pub(crate) cache_status: String,
    pub(crate) asn: u32,
    pub(crate) country: String,
    pub(crate) media_type: String,
    pub(crate) bots_version: String,
    /// When the gateway accepted the request.
    pub(crate) received_at_us: i64,
    /// Partition of the log that the record comes from.
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    /// Place in the request, from 0.
    pub(crate) place: u16,
    /// Key that it shares with other observers, if it has a correlation id.
    pub(crate) shared_key: Option<EventKey>,
    /// Equal for all copies of the report.
    pub(crate) identity: EventKey,
    /// Drain that delivered the line, if one did.
    pub(crate) drain: Option<DrainId>,
}

impl ReportRow {
    /// Returns the rows of a record. Its click tokens and agents must have been looked up.
    pub(crate) fn of(record: LogRecord, (partition, offset): (i32, i64)) -> Vec<Self> {
        let LogRecord { org, drain, received_at_us, events, .. } = record;
        let row = |(place, event)| {
            let keys = ReportKeys::new(org, drain, &event);
            Self { partition, offset, drain, received_at_us, ..Self::new(place, event, &keys, org.0) }
        };
        events.into_iter().enumerate().map(row).collect()
    }

    /// Creates the row of the event at this place of its record, without the members that come from the record.
    fn new(place: usize, event: LogEvent, keys: &ReportKeys, org: Uuid) -> Self {
        let raw = |value: Option<Box<serde_json::value::RawValue>>| value.map(|raw| raw.get().to_owned()).unwrap_or_default();
        let crawler = event.crawler.map(|crawler| *crawler).unwrap_or_default();
        Self {
            site: event.site,
            org_id: org,
            source_role: SourceRole::code(event.source_role),
            event_type: event.event_type,
            at: event.at_ms,
            session_id: event.session_id.map(|session| session.0).unwrap_or_default(),
            platform_id: event.session_org.map_or(org, |platform| platform.0),
            link: ClickLink::code(event.link),
            link_site: event.link_site,
            agent_id: event.agent_id.unwrap_or_default(),
            content_url: event.content_url.unwrap_or_default(),
            content_id: event.content_id.unwrap_or_default(),
            content_telemetry_id: event.content_telemetry_id.unwrap_or_default(),
            event_id: event.id.unwrap_or_default(),
            turn_id: event.turn_id.unwrap_or_default(),
            output_id: event.output_id.unwrap_or_default(),
            data: raw(event.data),
            extra: raw(event.extra),
            bot: crawler.bot,
            operator: crawler.operator,
            purpose: crawler.purpose.map(Purpose::as_str).unwrap_or_default().to_owned(),
            verified: Crawler::verified_code(crawler.verified),
            response_status: crawler.response_status,
            response_bytes: crawler.response_bytes,
            cache_status: crawler.cache_status,
            asn: crawler.asn,
            country: crawler.country,
            media_type: crawler.media_type,
            bots_version: crawler.bots_version,
            received_at_us: 0,
            partition: 0,
            offset: 0,
            place: u16::try_from(place).unwrap_or(u16::MAX),
            shared_key: keys.shared,
            identity: keys.identity,
            drain: None,
        }
    }
}
