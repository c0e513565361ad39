//! Rows of the two tables of the store, and where they are.
//!
//! `events` has one live row per event, ordered by (site, time, key); `reports` has one live row per report, ordered
//! by (organization, time, identity). Both are partitioned by home. A row that gets another time gets another place:
//! its old place gets a tombstone, in the same partition, so that both become visible together. The merge function
//! doesn't set versions. The writer gives all rows of a block the version `epoch << 40 | block`; of two rows at one
//! place the one with the larger version wins. Tombstones must never be cleaned up, or a late copy of an old insert
//! would bring a deleted row back.

use crate::report::{Acceptance, Home, Observer};
use schemas::event_key::EventKey;
use schemas::ids::OrgId;
use schemas::site::Site;

#[derive(Clone, Debug)]
pub struct EventRow<F> {
    /// The key that its reports share, or the identity of the report if it stands alone.
    pub key: EventKey,
    /// The canonical host.
    pub site: Option<Site>,
    /// Partition; never changes while the row exists.
    pub home: Home,
    /// Its reports, one per observer, in order of acceptance; never empty.
    pub reports: Vec<Entry<F>>,
}

impl<F> EventRow<F> {
    /// The time of the event, in milliseconds UTC: that of its first accepted timely report, else that of its first
    /// accepted report. So nobody can move an event that another observer reported in time.
    pub fn at_ms(&self) -> i64 {
        let timely = self.reports.iter().find(|report| report.accepted.is_timely(report.at_ms));
        timely.or(self.reports.first()).map_or(0, |report| report.at_ms)
    }

    /// The report that represents the event: agent, edge, origin, index, no role; within a role the first accepted.
    pub fn representing(&self) -> Option<&Entry<F>> {
        self.reports.iter().min_by_key(|report| (report.observer.precedence(), report.accepted))
    }

    pub fn place(&self) -> EventPlace {
        EventPlace { home: self.home, site: self.site.clone(), at_ms: self.at_ms(), key: self.key }
    }
}

/// A report within an event.
#[derive(Clone, Debug)]
pub struct Entry<F> {
    pub accepted: Acceptance,
    pub observer: Observer,
    /// When the event happened according to the report, in milliseconds UTC.
    pub at_ms: i64,
    /// Partition of the report's row in `reports`. It is stored because a copy that was accepted earlier may replace
    /// this report, and its row must then be found and stay in the same partition.
    pub home: Home,
    pub facts: F,
}

impl<F> Entry<F> {
    /// Where the report's row in `reports` is.
    pub fn place(&self) -> ReportPlace {
        ReportPlace { home: self.home, org: self.observer.org, at_ms: self.at_ms, identity: self.accepted.identity }
    }
}

/// Partition and sort position of a row of `events`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventPlace {
    pub home: Home,
    /// The canonical host.
    pub site: Option<Site>,
    /// Time of the event in milliseconds UTC.
    pub at_ms: i64,
    pub key: EventKey,
}

/// Partition and sort position of a row of `reports`.
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
    /// A row that deletes what is at its place.
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
    /// A live row. Its content is that of the new report with this acceptance; a row of `reports` depends on nothing
    /// else, so reports that join or leave an event are not written again.
    Row(WrittenReport),
    /// A row that deletes what is at its place.
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

/// A live row of `reports`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenReport {
    pub place: ReportPlace,
    /// Which copy of the report it holds.
    pub accepted: Acceptance,
}
