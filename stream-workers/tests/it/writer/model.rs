//! What the tables must contain, from all reports at once. Shares no code with the merge function.

use schemas::log::LogRecord;
use schemas::report_keys::ReportKeys;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;
/// Most reports of one event.
const MOST_OBSERVERS: usize = 32;

/// When a report was accepted: microseconds, place in the request, identity.
type Acceptance = (i64, u64, u128);

#[derive(Clone, Debug)]
struct Report {
    accepted: Acceptance,
    shared: Option<u128>,
    observer: (uuid::Uuid, u8, Option<uuid::Uuid>),
    /// The role it counts for.
    role: u8,
    site: String,
    at_ms: i64,
}

/// An event as it is compared: site, time, and identity and acceptance of each report, by key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, clickhouse::Row, serde::Deserialize)]
pub(crate) struct Event {
    pub(crate) key: u128,
    pub(crate) site: String,
    pub(crate) at_ms: i64,
    pub(crate) roles: u8,
    pub(crate) identities: Vec<u128>,
    pub(crate) received: Vec<u64>,
}

/// A live row of `reports`: identity, acceptance and time.
pub(crate) type StoredReport = (u128, u64, i64);

fn reports(records: &[(i32, Value)]) -> Vec<Report> {
    let mut reports = Vec::new();
    for (_, record) in records {
        let record: LogRecord = serde_json::from_value(record.clone()).unwrap();
        for (place, event) in record.events.iter().enumerate() {
            let ReportKeys { shared, identity } = ReportKeys::new(record.org, record.drain, event);
            let role = schemas::event::SourceRole::code(event.source_role);
            reports.push(Report {
                accepted: (record.received_at_us, place as u64, identity.0),
                shared: shared.map(|key| key.0),
                // Only agents cite.
                role: if event.event_type == "content_cited" && role == 0 { 1 } else { role },
                observer: (record.org.0, role, record.drain.map(|drain| drain.0)),
                site: event.site.clone(),
                at_ms: event.at_ms,
            });
        }
    }
    reports.sort_by_key(|report| report.accepted);
    let mut seen = BTreeSet::new();
    reports.retain(|report| seen.insert(report.accepted.2));
    reports
}

fn received((at_us, place, _): Acceptance) -> u64 {
    u64::try_from(at_us).unwrap() * 4_096 + place
}

/// The events, in order of their keys.
pub(crate) fn events(records: &[(i32, Value)]) -> Vec<Event> {
    let mut events: BTreeMap<u128, Vec<Report>> = BTreeMap::new();
    for report in reports(records) {
        let joins = |key: &u128| {
            let joined = events.get(key).map_or(&[][..], Vec::as_slice);
            joined.len() < MOST_OBSERVERS && joined.iter().all(|other| other.observer != report.observer)
        };
        let key = report.shared.filter(joins).unwrap_or(report.accepted.2);
        events.entry(key).or_default().push(report);
    }
    events.into_iter().map(|(key, reports)| event(key, &reports)).collect()
}

fn event(key: u128, reports: &[Report]) -> Event {
    let is_timely = |report: &&Report| (-HOUR_US..=DAY_US).contains(&(report.accepted.0 - report.at_ms * 1_000));
    let first = reports.iter().find(is_timely).unwrap_or(&reports[0]);
    Event {
        key,
        site: reports[0].site.clone(),
        at_ms: first.at_ms,
        roles: reports.iter().fold(0, |roles, report| roles | 1 << report.role),
        identities: reports.iter().map(|report| report.accepted.2).collect(),
        received: reports.iter().map(|report| received(report.accepted)).collect(),
    }
}

/// The rows of `reports`, in order of identity.
pub(crate) fn stored_reports(records: &[(i32, Value)]) -> Vec<StoredReport> {
    let row = |report: &Report| (report.accepted.2, received(report.accepted), report.at_ms);
    let mut rows: Vec<StoredReport> = reports(records).iter().map(row).collect();
    rows.sort_unstable();
    rows
}
