//! One observation as a row of the table `observations`; the columns are documented in its DDL.
//!
//! Must not decide anything but the two derived columns: `observer` and `version`.

use schemas::bots::Purpose;
use schemas::clicks::ClickLink;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::log::{LogEvent, LogRecord};
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Bits of `version` below the time: which of two reports of one microsecond counts as the first.
const TIE_BITS: u32 = 12;

/// Column order is the table's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, clickhouse::Row, Serialize)]
pub(crate) struct ObservationRow {
    pub(crate) site: String,
    pub(crate) event_key: u128,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) org_id: Uuid,
    pub(crate) observer: u8,
    pub(crate) version: u64,
    pub(crate) source_role: i8,
    pub(crate) event_type: String,
    pub(crate) at: i64,
    #[serde(with = "clickhouse::serde::uuid")]
    pub(crate) session_id: Uuid,
    #[serde(with = "clickhouse::serde::uuid")]
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
    /// Of the log, where it came from; no column.
    #[serde(skip)]
    pub(crate) partition: i32,
}

/// The identity of an observation: the table's sorting key.
pub(crate) type ObservationKey<'a> = (&'a str, u128, Uuid, u8);

impl ObservationRow {
    /// The rows of a record in which nothing is left to look up.
    pub(crate) fn of(record: LogRecord, partition: i32) -> Vec<Self> {
        let (org, received_at_us) = (record.org.0, record.received_at_us);
        let row = |event| Self { partition, ..Self::new(event, org, received_at_us) };
        record.events.into_iter().map(row).collect()
    }

    /// The row of one event of a record.
    pub(crate) fn new(event: LogEvent, org: Uuid, received_at_us: i64) -> Self {
        let role = SourceRole::code(event.source_role);
        let raw = |value: Option<Box<serde_json::value::RawValue>>| value.map(|raw| raw.get().to_owned()).unwrap_or_default();
        let crawler = event.crawler.map(|crawler| *crawler).unwrap_or_default();
        let mut row = Self {
            site: event.site,
            event_key: event.key.0,
            org_id: org,
            observer: if event.correlated { role } else { 0 },
            version: 0,
            source_role: i8::try_from(role).expect("there are five roles"),
            event_type: event.event_type,
            at: event.at_ms,
            session_id: event.session_id.map(|session| session.0).unwrap_or_default(),
            platform_id: event.session_org.map_or(org, |platform| platform.0),
            // A record from before it was said: the worst.
            link: ClickLink::code(event.link.or(event.session_org.map(|_| ClickLink::Other))),
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
            partition: 0,
        };
        row.version = version(&row, received_at_us);
        row
    }

    /// When the gateway accepted it, in microseconds; the table's `received_at` takes it from the same place.
    pub(crate) fn received_at_us(&self) -> i64 {
        i64::try_from(!self.version >> TIE_BITS).unwrap_or(0)
    }

    /// What makes two rows one observation.
    pub(crate) fn key(&self) -> ObservationKey<'_> {
        (&self.site, self.event_key, self.org_id, self.observer)
    }
}

/// Larger for older reports, so that the table keeps the first of two; in the same microsecond the content
/// decides, never the order of arrival. So few bits collide now and then, and for different reports in one request that is the
/// only difference of their versions: then [`crate::record::fold`] decides, which always has the whole request.
fn version(row: &ObservationRow, received_at_us: i64) -> u64 {
    let received = u64::try_from(received_at_us).unwrap_or(0);
    !((received << TIE_BITS) | tie(row))
}

fn tie(row: &ObservationRow) -> u64 {
    let mut digest = Sha256::new();
    for text in
        [&row.event_type, &row.agent_id, &row.content_url, &row.content_id, &row.turn_id, &row.output_id, &row.data, &row.extra]
    {
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text.as_bytes());
    }
    digest.update(row.at.to_be_bytes());
    digest.update(row.session_id.as_bytes());
    digest.update(row.platform_id.as_bytes());
    digest.update(row.source_role.to_be_bytes());
    let bytes: [u8; 32] = digest.finalize().into();
    (u64::from(bytes[0]) << 8 | u64::from(bytes[1])) & ((1 << TIE_BITS) - 1)
}
