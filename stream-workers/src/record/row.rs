//! One observation as a row of the table `observations`; the columns are documented in its DDL.
//!
//! Must not decide anything but the two derived columns: `observer` and `version`.

use schemas::bots::Purpose;
use schemas::clicks::ClickLink;
use schemas::crawler::Crawler;
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::ids::DrainId;
use schemas::log::{LogEvent, LogRecord};
use schemas::report_keys::ReportKeys;
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
    /// The digest whose first bits are part of `version`; no column.
    #[serde(skip)]
    pub(crate) digest: u128,
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
    /// Its place there; no column.
    #[serde(skip)]
    pub(crate) offset: i64,
    /// Place in the request, from 0; no column.
    #[serde(skip)]
    pub(crate) place: u16,
    /// The key that it shares with other observers, if it has a correlation id; no column.
    #[serde(skip)]
    pub(crate) shared_key: Option<EventKey>,
    /// Copies of the report have the same; no column.
    #[serde(skip)]
    pub(crate) identity: EventKey,
    /// The drain of its line, if it came through one; no column.
    #[serde(skip)]
    pub(crate) drain: Option<DrainId>,
}

/// The identity of an observation: the table's sorting key.
pub(crate) type ObservationKey<'a> = (&'a str, u128, Uuid, u8);

impl ObservationRow {
    /// The rows of a record in which nothing is left to look up.
    pub(crate) fn of(record: LogRecord, (partition, offset): (i32, i64)) -> Vec<Self> {
        let LogRecord { org, drain, received_at_us, events, .. } = record;
        let row = |(place, event)| {
            let keys = ReportKeys::new(org, drain, &event);
            Self { partition, offset, drain, ..Self::new(place, event, &keys, org.0, received_at_us) }
        };
        events.into_iter().enumerate().map(row).collect()
    }

    /// The row of the event at a `place` of its record.
    fn new(place: usize, event: LogEvent, keys: &ReportKeys, org: Uuid, received_at_us: i64) -> Self {
        let role = SourceRole::code(event.source_role);
        let raw = |value: Option<Box<serde_json::value::RawValue>>| value.map(|raw| raw.get().to_owned()).unwrap_or_default();
        let crawler = event.crawler.map(|crawler| *crawler).unwrap_or_default();
        let mut row = Self {
            site: event.site,
            event_key: keys.event().0,
            org_id: org,
            observer: if keys.shared.is_some() { role } else { 0 },
            version: 0,
            digest: 0,
            source_role: i8::try_from(role).expect("there are five roles"),
            event_type: event.event_type,
            at: event.at_ms,
            session_id: event.session_id.map(|session| session.0).unwrap_or_default(),
            platform_id: event.session_org.map_or(org, |platform| platform.0),
            // The strictest, should a record not have it.
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
            offset: 0,
            place: u16::try_from(place).unwrap_or(u16::MAX),
            shared_key: keys.shared,
            identity: keys.identity,
            drain: None,
        };
        row.digest = digest(&row, place);
        row.version = version(received_at_us, row.digest);
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
fn version(received_at_us: i64, digest: u128) -> u64 {
    let received = u64::try_from(received_at_us).unwrap_or(0);
    let tie = u64::try_from(digest >> (u128::BITS - 16)).unwrap_or(0) & ((1 << TIE_BITS) - 1);
    !((received << TIE_BITS) | tie)
}

/// Digest of what the reporter is shown of a row. What another organization's click token added is replaced by the event's place in
/// the request: otherwise the report that stays would tell a reporter who sends two whether it guessed a session, or which of two
/// sessions is the smaller.
fn digest(row: &ObservationRow, place: usize) -> u128 {
    let is_of_token = row.platform_id != row.org_id;
    let agent_id = if is_of_token { "" } else { &row.agent_id };
    let content_url = if is_of_token && row.link == ClickLink::code(Some(ClickLink::Taken)) { "" } else { &row.content_url };
    let mut digest = Sha256::new();
    for text in [&row.event_type, agent_id, content_url, &row.content_id, &row.turn_id, &row.output_id, &row.data, &row.extra] {
        digest.update((text.len() as u64).to_be_bytes());
        digest.update(text.as_bytes());
    }
    digest.update(row.at.to_be_bytes());
    if is_of_token {
        digest.update((place as u64).to_be_bytes());
    } else {
        digest.update(row.session_id.as_bytes());
        digest.update(row.platform_id.as_bytes());
    }
    digest.update(row.source_role.to_be_bytes());
    let bytes: [u8; 32] = digest.finalize().into();
    bytes.first_chunk().map_or(0, |first| u128::from_be_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::fold::fold;
    use schemas::ids::OrgId;
    use serde_json::{Value, json};

    const REPORTER: u128 = 1;
    const ISSUER: u128 = 2;

    /// Two reports of one event in one request, each by a token of the issuer's, with these members; and which of them stays.
    fn stays(sessions: [u128; 2], members: [&Value; 2]) -> ObservationRow {
        let rows = std::iter::zip(sessions, members).enumerate().map(|(place, (session, members))| {
            let mut event = json!({"own_key": "0000000000000000000000000000000a", "type": "content_engaged", "at_ms": 0,
                "site": "com.example", "content_url": "https://example.com/", "agent_id": format!("bot/{session}"),
                "session_id": Uuid::from_u128(session), "session_org": Uuid::from_u128(ISSUER), "link": "same"});
            event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            ObservationRow { partition: i32::try_from(place).unwrap(), ..row_of(place, event) }
        });
        let mut folded = fold(rows.collect());
        assert_eq!((folded.rows.len(), folded.repeats.len()), (1, 1));
        folded.rows.remove(0)
    }

    fn row_of(place: usize, event: Value) -> ObservationRow {
        let (org, event): (_, LogEvent) = (OrgId(Uuid::from_u128(REPORTER)), serde_json::from_value(event).unwrap());
        let keys = ReportKeys::new(org, None, &event);
        ObservationRow::new(place, event, &keys, org.0, 1)
    }

    /// Sessions of two tokens: equal, and either one the smaller, with the other chosen by who attacks.
    const SESSIONS: [[u128; 2]; 5] = [[1, 1], [1, 2], [2, 1], [1, u128::MAX], [u128::MAX, 1]];

    /// Whoever sends two reports of one event is shown which stays: with a token of another's behind one, that may not depend on
    /// the session it stands for. Some of so many details have equal bits in `version`, and then the fold decides.
    #[test]
    fn s18_which_of_two_reports_stays_says_nothing_of_the_session_behind_a_token() {
        let details: Vec<Value> = (0..100).map(|n| json!({"data": {"n": n}})).collect();
        let pairs: Vec<[&Value; 2]> = details.iter().flat_map(|one| details.iter().map(move |other| [one, other])).collect();
        let of = |sessions| pairs.iter().map(|pair| stays(sessions, *pair).partition).collect::<Vec<_>>();
        let expected = of([1, 1]);
        for sessions in SESSIONS {
            assert_eq!(of(sessions), expected, "{sessions:?}");
        }
    }

    /// The same where the two differ in nothing but the token, or in what no digest holds and the reporter is shown.
    #[test]
    fn s18_two_reports_that_differ_by_their_tokens_alone_tell_nothing_of_the_sessions() {
        let pairs = [
            [json!({}), json!({})],
            [json!({"content_telemetry_id": "a"}), json!({"content_telemetry_id": "b"})],
            [json!({"content_telemetry_id": "b"}), json!({"content_telemetry_id": "a"})],
        ];
        for [one, other] in &pairs {
            let of = |sessions| stays(sessions, [one, other]).partition;
            for sessions in SESSIONS {
                assert_eq!(of(sessions), of([1, 1]), "{sessions:?} {one} {other}");
            }
        }
    }

    /// Two reports by tokens alone are of the hosts of their links, and so two rows: which represents the event is decided.
    #[test]
    fn c4_two_reports_that_took_the_urls_of_their_tokens_have_an_order() {
        let taken = |place, host: &str| {
            let event = json!({"own_key": "0000000000000000000000000000000a", "type": "content_engaged", "at_ms": 0,
                "site": format!("com.{host}"), "content_url": format!("https://{host}.com/"), "session_id": Uuid::from_u128(3),
                "session_org": Uuid::from_u128(ISSUER), "link": "taken"});
            row_of(place, event).version
        };
        assert_ne!(taken(0, "example"), taken(1, "shop"));
        assert_eq!(taken(0, "example"), taken(0, "shop"), "and the link decides nothing of it");
    }

    /// A replay must find the same order again.
    #[test]
    fn e11_versions_of_stored_rows_never_change() {
        let row = |members: Value| {
            let mut event = json!({"own_key": "0000000000000000000000000000000a", "type": "content_engaged", "at_ms": 7, "source_role": "agent",
                "site": "com.example", "content_url": "https://example.com/", "agent_id": "bot/1", "session_id": Uuid::from_u128(9)});
            event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            row_of(0, event).version
        };
        let theirs = json!({"session_org": Uuid::from_u128(ISSUER), "link": "same"});
        assert_eq!([row(json!({})), row(theirs)], [18_446_744_073_709_547_351, 18_446_744_073_709_545_253]);
    }
}
