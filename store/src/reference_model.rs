//! A store model that knows all reports, and generated reports.
//!
//! The model doesn't share code with the merge function.

use crate::report::{Acceptance, Observer, Report};
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::ids::{DrainId, OrgId};
use schemas::site::Site;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use uuid::Uuid;

/// Identifies a copy of a report in a test.
pub(crate) type Facts = u32;

/// Each event's reports, in order of acceptance.
pub(crate) type Events<'a> = BTreeMap<EventKey, Vec<&'a Report<Facts>>>;

pub(crate) fn events<'a>(reports: impl Iterator<Item = &'a Report<Facts>>, most_observers: usize) -> Events<'a> {
    let (mut events, mut seen) = (Events::new(), BTreeSet::new());
    for report in by_acceptance(reports).into_iter().filter(|report| seen.insert(report.accepted.identity)) {
        let joined = |key: &EventKey| events.get(key).map_or(&[][..], Vec::as_slice);
        let has_room =
            |joined: &[&Report<_>]| joined.len() < most_observers && joined.iter().all(|r| r.observer != report.observer);
        let shared_key = report.shared_key.filter(|key| has_room(joined(key)));
        events.entry(shared_key.unwrap_or(report.accepted.identity)).or_default().push(report);
    }
    events
}

pub(crate) fn first_copies<'a>(reports: impl Iterator<Item = &'a Report<Facts>>) -> BTreeMap<EventKey, &'a Report<Facts>> {
    let mut copies = by_acceptance(reports);
    copies.reverse();
    copies.into_iter().map(|report| (report.accepted.identity, report)).collect()
}

fn by_acceptance<'a>(reports: impl Iterator<Item = &'a Report<Facts>>) -> Vec<&'a Report<Facts>> {
    let mut reports: Vec<_> = reports.collect();
    reports.sort_by_key(|report| (report.accepted.at_us, report.accepted.place, report.accepted.identity));
    reports
}

/// Returns an event's time, which is that of its first timely report, otherwise that of its first report.
pub(crate) fn time_ms(reports: &[&Report<Facts>]) -> i64 {
    let (day_ms, hour_ms) = (86_400_000, 3_600_000);
    let is_timely = |report: &&&Report<Facts>| {
        let early_ms = report.at_ms * 1_000 - report.accepted.at_us;
        early_ms >= -day_ms * 1_000 && early_ms <= hour_ms * 1_000
    };
    reports.iter().find(is_timely).unwrap_or(&reports[0]).at_ms
}

/// Parameters of a generated report. The numbers are small, so copies, reused ids and shared observers are frequent.
#[derive(Clone, Copy)]
pub(crate) struct Spec {
    /// Correlation id with its page. Odd ones are on another host.
    pub(crate) key: Option<u8>,
    pub(crate) observer: u8,
    pub(crate) id: u8,
    /// Acceptance, in seconds after 2026-01-30.
    pub(crate) accepted_s: i64,
    /// Reported time, in seconds after acceptance.
    pub(crate) at_s: i64,
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, observer, id, accepted_s, at_s } = self;
        write!(f, "key {key:?} observer {observer} id {id} accepted {accepted_s} at {at_s:+}")
    }
}

impl Spec {
    /// Returns whether the report with this identity has a correlation id.
    pub(crate) fn has_shared_key(identity: EventKey) -> bool {
        identity.0 >> 100 == 1
    }

    pub(crate) fn report(self, facts: Facts) -> Report<Facts> {
        const START_S: i64 = 1_769_731_200;
        let Self { key, observer, id, accepted_s, at_s } = self;
        let n = u128::from(observer);
        let role = [Some(SourceRole::Agent), Some(SourceRole::Edge), Some(SourceRole::Origin), None][usize::from(observer % 4)];
        let drain = (role == Some(SourceRole::Edge) && key.is_some()).then(|| DrainId(Uuid::from_u128(n)));
        let org = OrgId(Uuid::from_u128(n / 4));
        let host = u128::from(key.unwrap_or(0) % 2);
        // Without a correlation id, the identity contains neither role nor drain.
        let identity = match key {
            Some(key) => (1 << 100) | (u128::from(key) << 32) | (n << 16) | u128::from(id),
            None => (2 << 100) | ((n / 4) << 16) | u128::from(id),
        };
        Report {
            shared_key: key.map(|key| EventKey(u128::from(key))),
            accepted: Acceptance { at_us: (START_S + accepted_s) * 1_000_000, place: 0, identity: EventKey(identity) },
            observer: Observer { org, role, drain },
            site: Some(Site::from_stored(["com.example", "com.other"][usize::from(host == 1)])),
            at_ms: (START_S + accepted_s + at_s) * 1_000,
            facts,
        }
    }
}
