//! Rows of `failed_fetches`.

use crate::report::{Acceptance, Home};
use crate::row_binary::Encoder;
use schemas::bots::Purpose;
use schemas::crawler::Crawler;
use schemas::event_key::EventKey;
use schemas::ids::{DrainId, OrgId};
use schemas::log::{FailedFetch, LogRecord};
use schemas::signature::SignatureResult;

/// Columns of inserts into `failed_fetches`, with their types.
pub const FAILED_FETCH_COLUMNS: &[(&str, &str)] = &[
    ("site", "String"),
    ("at", "DateTime64(3, 'UTC')"),
    ("identity", "UInt128"),
    ("home", "UInt32"),
    ("path", "String"),
    ("bot", "LowCardinality(String)"),
    ("operator", "LowCardinality(String)"),
    ("purpose", "LowCardinality(String)"),
    ("verified", "Enum8('unknown' = 0, 'no' = 1, 'yes' = 2)"),
    ("status", "UInt16"),
    ("signature", super::SIGNATURE),
    ("signed_by", "LowCardinality(String)"),
    ("organization", "UUID"),
    ("drain", "UUID"),
    ("precedence", "UInt64"),
];

/// A bot's log line whose request returned no content. The row depends only on its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedFetchRow {
    pub organization: OrgId,
    /// The drain that delivered the line, if any.
    pub drain: Option<DrainId>,
    /// Acceptance, with the identity that the line's report would have if the request had returned content.
    pub accepted: Acceptance,
    pub fetch: FailedFetch,
}

impl FailedFetchRow {
    pub fn take_from(record: &mut LogRecord) -> Vec<Self> {
        let (organization, drain, at_us) = (record.org, record.drain, record.received_at_us);
        let row = |(place, fetch): (usize, FailedFetch)| {
            let identity = EventKey::for_report(organization, &fetch.site, fetch.own_key);
            let accepted = Acceptance { at_us, place: Acceptance::clamp_place(place), identity };
            Self { organization, drain, accepted, fetch }
        };
        std::mem::take(&mut record.failed_fetches).into_iter().enumerate().map(row).collect()
    }

    /// Appends the row, in the order of [`FAILED_FETCH_COLUMNS`].
    pub fn encode(&self, body: &mut Encoder) {
        let Self { organization, drain, accepted, fetch } = self;
        body.text(&fetch.site);
        body.i64(fetch.at_ms);
        body.u128(accepted.identity.0);
        body.u32(Home::new(accepted).0);
        [fetch.path.as_str(), &fetch.bot, &fetch.operator, Purpose::as_str(fetch.purpose)]
            .into_iter()
            .for_each(|text| body.text(text));
        body.u8(u8::try_from(Crawler::verified_code(fetch.verified)).unwrap_or(0));
        body.u16(fetch.status);
        let signature = fetch.signature.as_deref();
        body.u8(signature.map_or(SignatureResult::None, |signature| signature.result).code());
        body.text(signature.map_or("", |signature| &signature.signed_by));
        body.uuid(organization.0);
        body.uuid(drain.map(|drain| drain.0).unwrap_or_default());
        // ClickHouse keeps the copy with the largest precedence.
        body.u64(u64::MAX - accepted.stored());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row_binary::Decoder;
    use schemas::log::{RECORD_VERSION, RecordKind};
    use uuid::Uuid;

    fn record(received_at_us: i64) -> LogRecord {
        let fetch = |key: u128, status: u16| FailedFetch {
            own_key: EventKey(key),
            at_ms: 1_790_000_000_000,
            site: "com.example".to_owned(),
            path: "/a".to_owned(),
            bot: "GPTBot".to_owned(),
            operator: "OpenAI".to_owned(),
            purpose: Purpose::Training,
            verified: Some(true),
            status,
            signature: None,
        };
        LogRecord {
            v: RECORD_VERSION,
            org: OrgId(Uuid::from_u128(1)),
            is_owners: true,
            received_at_us,
            kind: RecordKind::Drain,
            drain: None,
            session: None,
            named_sessions: Vec::new(),
            events: Vec::new(),
            failed_fetches: vec![fetch(1, 404), fetch(2, 304)],
            signature: None,
        }
    }

    #[test]
    fn first_accepted_copy_has_highest_precedence() {
        let precedence = |row: &FailedFetchRow| {
            let mut body = Encoder::default();
            row.encode(&mut body);
            let last = body.0.split_off(body.0.len() - 8);
            Decoder(&last).u64().unwrap()
        };
        let [first, later] =
            [1_790_000_000_000_000, 1_793_000_000_000_000].map(|at_us| FailedFetchRow::take_from(&mut record(at_us)));
        assert!(precedence(&first[0]) > precedence(&first[1]) && precedence(&first[1]) > precedence(&later[0]));
        let homes: Vec<Home> = first.iter().chain(&later).map(|row| Home::new(&row.accepted)).collect();
        assert_eq!(homes, [202_609, 202_609, 202_610, 202_610].map(Home), "the month of acceptance, not of the line");
    }

    #[test]
    fn all_copies_of_a_line_have_one_identity() {
        let identities = |record: &mut LogRecord| -> Vec<EventKey> {
            FailedFetchRow::take_from(record).iter().map(|row| row.accepted.identity).collect()
        };
        let mut through_a_drain = LogRecord { drain: Some(DrainId(Uuid::from_u128(7))), ..record(1_790_000_000_000_001) };
        let mut reordered = record(1_793_000_000_000_000);
        reordered.failed_fetches.reverse();
        let expected = identities(&mut record(1_790_000_000_000_000));
        assert_ne!(expected[0], expected[1]);
        assert_eq!(identities(&mut through_a_drain), expected);
        assert_eq!(identities(&mut reordered), [expected[1], expected[0]]);
    }
}
