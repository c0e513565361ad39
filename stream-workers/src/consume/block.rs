//! A block: records that are read from the log and stored together, as reports, records that need lookups, and dead letters.
//!
//! Accepts any bytes. A record that can't be read or that causes a panic becomes a dead letter; the others are stored.

use super::Origin;
use super::new_dead_letter::DeadLetter;
use super::partition_stats::CountsByPartition;
use crate::record::decode::{count_events, decode, guarded};
use crate::record::new_report::NewReport;
use chrono::{DateTime, Utc};
use rdkafka::message::{Headers, Message, OwnedHeaders};
use schemas::event::MAX_STRING_BYTES;
use schemas::ids::OrgId;
use schemas::log::{LogEvent, LogRecord, header};
use schemas::session::SessionReport;
use schemas::shard::Buckets;
use schemas::site::MAX_URL_BYTES;
use std::collections::BTreeMap;
use store::tables::FailedFetchRow;
use tokio::time::Instant;

/// Number of events at which a block is full. With one more request of 1,000 events, a block stays below 100,000.
const BLOCK_ROWS: usize = 99_000;
/// Size at which a block is full, in bytes: its records, and what lookups may add to them. A block exceeds it by one record at
/// most.
const BLOCK_BYTES: usize = 32 * 1024 * 1024;

/// A session named by a record's events.
#[derive(Clone, Debug)]
pub(crate) struct NamedSession {
    /// The reporter, to which the session belongs.
    pub(crate) org: OrgId,
    pub(crate) accepted_at: DateTime<Utc>,
    pub(crate) report: SessionReport,
}

/// First and last offset by partition.
pub(crate) type Offsets = BTreeMap<i32, (i64, i64)>;

#[derive(Default)]
pub(crate) struct Block {
    pub(crate) reports: Vec<NewReport>,
    pub(crate) failed_fetches: Vec<FailedFetchRow>,
    /// Records with click tokens or agents to look up in PostgreSQL.
    pub(crate) unresolved: Vec<Unresolved>,
    named_sessions: Vec<NamedSession>,
    pub(crate) dead_letters: Vec<DeadLetter>,
    pub(crate) offsets: Offsets,
    /// Number of read records. The writer adds how many were stored and rejected.
    pub(crate) tally: CountsByPartition,
    pub(crate) opened: Option<Instant>,
    unresolved_events: usize,
    bytes: usize,
}

impl Block {
    pub(crate) fn is_full(&self) -> bool {
        self.events() + self.failed_fetches.len() >= BLOCK_ROWS || self.bytes >= BLOCK_BYTES
    }

    pub(crate) fn events(&self) -> usize {
        self.reports.len() + self.unresolved_events
    }

    /// Takes the sessions to write, in each partition's order.
    pub(crate) fn take_named_sessions(&mut self) -> Vec<NamedSession> {
        std::mem::take(&mut self.named_sessions)
    }

    /// Takes the records that need lookups. The caller adds their reports or rejects them.
    pub(crate) fn take_unresolved(&mut self) -> Vec<Unresolved> {
        self.unresolved_events = 0;
        std::mem::take(&mut self.unresolved)
    }

    /// Reads one record. If it isn't `wanted`, adds only its offset.
    pub(crate) fn push(&mut self, message: &impl Message, wanted: impl Fn(&LogRecord) -> bool) {
        let payload = message.payload().unwrap_or_default();
        let (sessions, failed_fetches) = (&mut self.named_sessions, &mut self.failed_fetches);
        let read = |mut record: LogRecord| {
            if !wanted(&record) {
                return None;
            }
            sessions.extend(named_sessions(&mut record));
            failed_fetches.extend(FailedFetchRow::take_from(&mut record));
            Some(DecodedRecord::from_record(record, (message.partition(), message.offset())))
        };
        match guarded(|| decode(payload).map(read)) {
            Ok(Some(DecodedRecord::Reports(reports))) => self.reports.extend(reports),
            Ok(Some(DecodedRecord::Unresolved(record))) => {
                self.unresolved_events += record.events.len();
                self.bytes += most_added(&record);
                self.unresolved.push(Unresolved { record: *record, dead_letter: dead_letter(message) });
            }
            Ok(None) => {}
            Err(reason) => {
                let events = count_events(payload);
                self.dead_letters.push(DeadLetter { reason, events, ..dead_letter(message) });
            }
        }
        self.count(message);
    }

    /// Adds one record as a dead letter, without decoding it.
    pub(crate) fn push_unread(&mut self, message: &impl Message, reason: String) {
        self.dead_letters.push(DeadLetter { reason, ..dead_letter(message) });
        self.count(message);
    }

    fn count(&mut self, message: &impl Message) {
        self.bytes += message.payload().map_or(0, <[u8]>::len);
        self.skip(message);
    }

    /// Counts a record and advances the offset, without decoding the record.
    pub(crate) fn skip(&mut self, message: &impl Message) {
        let offset = message.offset();
        self.tally.entry(message.partition()).or_default().records += 1;
        self.opened.get_or_insert_with(Instant::now);
        let range = self.offsets.entry(message.partition()).or_insert((offset, offset));
        *range = (range.0.min(offset), range.1.max(offset));
    }
}

/// A record with click tokens or agents to look up, and the dead letter that it becomes if a token is invalid.
#[derive(Debug)]
pub(crate) struct Unresolved {
    pub(crate) record: LogRecord,
    pub(crate) dead_letter: DeadLetter,
}

fn named_sessions(record: &mut LogRecord) -> impl Iterator<Item = NamedSession> {
    let (org, accepted_at) = (record.org, DateTime::from_timestamp_micros(record.received_at_us).unwrap_or_default());
    std::mem::take(&mut record.named_sessions).into_iter().map(move |report| NamedSession { org, accepted_at, report })
}

/// Returns the maximum number of bytes that lookups add to a record's reports: token URLs or sites, and agents.
fn most_added(record: &LogRecord) -> usize {
    let added = |event: &LogEvent| match (event.is_unresolved(), event.lacks_agent()) {
        (true, _) => MAX_URL_BYTES + MAX_STRING_BYTES,
        (false, true) => MAX_STRING_BYTES,
        (false, false) => 0,
    };
    record.events.iter().map(added).sum()
}

enum DecodedRecord {
    Reports(Vec<NewReport>),
    Unresolved(Box<LogRecord>),
}

impl DecodedRecord {
    fn from_record(record: LogRecord, origin: Origin) -> Self {
        match record.is_unresolved() {
            true => Self::Unresolved(Box::new(record)),
            false => Self::Reports(NewReport::from_record(record, origin)),
        }
    }
}

pub(crate) fn named_buckets(headers: Option<&impl Headers>) -> Buckets {
    let named = headers.and_then(|headers| headers.iter().find(|header| header.key == header::BUCKETS));
    Buckets::from_header(named.and_then(|header| header.value))
}

/// Returns the record as a dead letter without a reason.
fn dead_letter(message: &impl Message) -> DeadLetter {
    DeadLetter {
        payload: message.payload().unwrap_or_default().to_vec(),
        headers: message
            .headers()
            .map(|headers| headers.iter().fold(OwnedHeaders::new(), OwnedHeaders::insert))
            .unwrap_or_default(),
        partition: message.partition(),
        offset: message.offset(),
        origin: format!("{}/{}/{}", message.topic(), message.partition(), message.offset()),
        reason: String::new(),
        events: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::Timestamp;
    use rdkafka::message::OwnedMessage;
    use schemas::ids::{OrgId, SessionId};
    use schemas::log::RECORD_VERSION;
    use uuid::Uuid;

    fn message(partition: i32, offset: i64, payload: &str) -> OwnedMessage {
        let payload = Some(payload.as_bytes().to_vec());
        OwnedMessage::new(payload, None, "telemetry".to_owned(), Timestamp::NotAvailable, partition, offset, None)
    }

    #[test]
    fn full_blocks_leave_room_for_lookups() {
        let [bound, nameless] = [
            r#""ctx_hash":"35cd9e19021627ec4370175f47eb4d73385c2770a7eda01f351817fccc0eae4f""#,
            r#""session_id":"00000000-0000-0000-0000-000000000001""#,
        ]
        .map(|left| {
            let event = |n| format!(r#"{{"own_key":"{n:032x}","type":"content_engaged","at_ms":1790000000000,{left}}}"#);
            let events: Vec<String> = (0..1_000).map(event).collect();
            let head = r#""org":"00000000-0000-0000-0000-000000000001","received_at_us":1790000000000000,"kind":"events""#;
            format!(r#"{{"v":{RECORD_VERSION},{head},"events":[{}]}}"#, events.join(","))
        });
        let link = format!("https://example.com/{}", "l".repeat(MAX_URL_BYTES - 20));
        for record in [bound, nameless] {
            let (mut block, mut reports) = (Block::default(), Vec::new());
            for offset in 0.. {
                if block.is_full() {
                    break;
                }
                block.push(&message(0, offset, &record), |_| true);
            }
            let records = block.unresolved.len();
            for Unresolved { mut record, .. } in block.take_unresolved() {
                let reporter = record.org;
                for event in &mut record.events {
                    if event.is_unresolved() {
                        event.bind_to_click(reporter, OrgId(Uuid::max()), SessionId(Uuid::max()), &link);
                        assert_eq!(event.content_url.as_ref().map(String::len), Some(MAX_URL_BYTES));
                    }
                    event.agent_id = Some("a".repeat(MAX_STRING_BYTES));
                }
                reports.extend(NewReport::from_record(record, (0, 0)));
            }
            let added = |NewReport { report, event, .. }: &NewReport| {
                report.facts.url.len() + event.link_site.len() + report.facts.agent.len()
            };
            let added: usize = reports.iter().map(added).sum();
            let of_one = added / records;
            assert!(added <= BLOCK_BYTES + of_one, "{added} bytes of {records} records");
            assert!(added + 3 * of_one >= BLOCK_BYTES, "the block is not full: {added} bytes of {records} records");
        }
    }
}
