//! Rows of `events` and `reports`, and their places.
//!
//! `events` has one live row per event, ordered by (site, time, key); `reports` has one live row per report, ordered by (organization,
//! time, identity). Both are partitioned by home. If a row's time changes, its place changes too: the old place gets a tombstone in the
//! same partition, so that both become visible together. The merge function doesn't set versions. The writer gives all rows in a block the
//! version `epoch << 40 | block`; of the rows at one place, the one with the largest version wins. Tombstones must never be cleaned up, or
//! a late copy of an old insert would restore a deleted row.

use crate::report::{Acceptance, Home, Observer};
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use schemas::site::Site;

#[derive(Clone, Debug)]
pub struct EventRow<F> {
    /// The reports' shared key, or a standalone report's identity.
    pub key: EventKey,
    pub site: Option<Site>,
    /// Partition. Never changes while the row exists.
    pub home: Home,
    /// The event's reports, one per observer, in order of acceptance. Never empty.
    pub reports: Vec<Entry<F>>,
}

impl<F> EventRow<F> {
    /// Returns the event's time in milliseconds UTC: that of its first accepted timely report, otherwise of its first accepted report. So
    /// an observer can't move an event that another observer reported in time.
    pub fn at_ms(&self) -> i64 {
        let timely = self.reports.iter().find(|report| report.accepted.is_timely(report.at_ms));
        timely.or(self.reports.first()).map_or(0, |report| report.at_ms)
    }

    /// Returns the report that represents the event: agent, edge, origin, index, no role; within a role the first accepted.
    pub fn representative(&self) -> Option<&Entry<F>> {
        self.reports.iter().min_by_key(|report| (report.observer.precedence(), report.accepted))
    }

    pub fn place(&self) -> EventPlace {
        EventPlace { home: self.home, site: self.site.clone(), at_ms: self.at_ms(), key: self.key }
    }
}

#[derive(Clone, Debug)]
pub struct Entry<F> {
    pub accepted: Acceptance,
    pub observer: Observer,
    /// Reported time of the event, in milliseconds UTC.
    pub at_ms: i64,
    /// Partition of the report's row in `reports`. If a copy that was accepted earlier replaces this report, the row must be found and stay
    /// in the same partition.
    pub home: Home,
    pub facts: F,
}

impl<F> Entry<F> {
    pub fn place(&self) -> ReportPlace {
        ReportPlace { home: self.home, org: self.observer.org, at_ms: self.at_ms, identity: self.accepted.identity }
    }
}

/// Partition and sort position of a row in `events`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventPlace {
    pub home: Home,
    pub site: Option<Site>,
    /// Time of the event in milliseconds UTC.
    pub at_ms: i64,
    pub key: EventKey,
}

/// Partition and sort position of a row in `reports`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReportPlace {
    pub home: Home,
    pub org: OrgId,
    /// Reported time in milliseconds UTC.
    pub at_ms: i64,
    pub identity: EventKey,
}

#[derive(Clone, Debug)]
pub enum EventWrite<F> {
    Row(EventRow<F>),
    /// Deletes the row at this place.
    Tombstone(EventPlace),
}

impl<F> EventWrite<F> {
    pub fn place(&self) -> EventPlace {
        match self {
            Self::Row(row) => row.place(),
            Self::Tombstone(place) => place.clone(),
        }
    }
}

#[derive(Clone, Debug)]
pub enum ReportWrite {
    /// A live row with the content of the new report that has this acceptance. Depends only on that content and acceptance, so a report
    /// isn't written again when it joins or leaves an event.
    Row(WrittenReport),
    /// Deletes the row at this place.
    Tombstone(ReportPlace),
}

impl ReportWrite {
    pub fn place(&self) -> ReportPlace {
        match self {
            Self::Row(written) => written.place,
            Self::Tombstone(place) => *place,
        }
    }
}

/// A live row in `reports`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenReport {
    pub place: ReportPlace,
    /// Acceptance of the copy that the row contains.
    pub accepted: Acceptance,
}
