//! Reports and their order of acceptance.

use chrono::{DateTime, Datelike};
use schemas::event::SourceRole;
use schemas::event_key::EventKey;
use schemas::ids::{DrainId, OrgId};
use schemas::site::Site;

/// Maximum time from an event to the acceptance of a timely report.
const TIMELY_BEFORE_US: i64 = 24 * 60 * 60 * 1_000_000;
/// Maximum time from the acceptance of a timely report to its event, because clocks differ.
const TIMELY_AFTER_US: i64 = 60 * 60 * 1_000_000;

/// One reported event.
///
/// `F` contains everything else that was reported: URL, session, agent, status and so on. The merge function never reads it, so new columns
/// don't affect the rules.
#[derive(Clone, Debug)]
pub struct Report<F> {
    /// Key of the event that this report may join, if it has a correlation id. Depends on the canonical host, the correlation id and the
    /// URL (or the `content_id`), so reports about different hosts never share a key.
    pub shared_key: Option<EventKey>,
    pub accepted: Acceptance,
    pub observer: Observer,
    /// Canonical host; `None` if it can't be owned. All reports with one key have the same host.
    pub site: Option<Site>,
    /// Reported time of the event, in milliseconds UTC. Clients can choose any time.
    pub at_ms: i64,
    pub facts: F,
}

impl<F> Report<F> {
    /// Returns the key of the report's group. Reports in different groups can't affect each other's events, so the merge function handles
    /// one group at a time.
    pub fn group(&self) -> EventKey {
        self.shared_key.unwrap_or(self.accepted.identity)
    }
}

/// An observer of an event. Only its first accepted report with a correlation id joins the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Observer {
    pub org: OrgId,
    pub role: Option<SourceRole>,
    /// The drain, for log lines with a correlation id.
    pub drain: Option<DrainId>,
}

impl Observer {
    /// Returns the position in the order agent, edge, origin, index, no role. The report with the lowest position represents the event
    /// (docs/api/counting.md#5-one-report-represents-the-event).
    pub fn precedence(&self) -> u8 {
        match SourceRole::code(self.role) {
            0 => u8::MAX,
            code => code,
        }
    }
}

/// The order of acceptance: by time, index in the request, and identity. The order is total, so exactly one report is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Acceptance {
    /// When the gateway accepted the request, in microseconds UTC.
    pub at_us: i64,
    /// Index in the request, from 0. A request has at most 1,000 events.
    pub place: u16,
    /// Identifies the report. Of its copies, the first accepted counts.
    ///
    /// The identity of a report with a correlation id must include its observer and its `shared_key`, so that all copies belong to the same
    /// event and observer. It is also the event key of a standalone report.
    pub identity: EventKey,
}

/// Number of bits in [`Acceptance::stored`] for the index in the request.
const PLACE_BITS: u32 = 12;

impl Acceptance {
    /// Returns time and index as stored in the `received` column: microseconds * 4096 + index.
    pub fn stored(&self) -> u64 {
        u64::try_from(self.at_us).unwrap_or(0) << PLACE_BITS | u64::from(self.place)
    }

    /// Limits an index to the maximum that [`stored`](Self::stored) can encode. The gateway's records never exceed it.
    pub fn clamp_place(place: usize) -> u16 {
        const LAST: u16 = (1 << PLACE_BITS) - 1;
        u16::try_from(place).unwrap_or(LAST).min(LAST)
    }

    /// Reverses [`stored`](Self::stored).
    pub fn from_stored(received: u64, identity: EventKey) -> Self {
        let place = u16::try_from(received & ((1 << PLACE_BITS) - 1)).unwrap_or(0);
        Self { at_us: i64::try_from(received >> PLACE_BITS).unwrap_or(0), place, identity }
    }

    /// Returns whether the report of an event at this time, in milliseconds UTC, is timely: at most 24 hours before and one hour after
    /// acceptance, inclusive.
    pub fn is_timely(&self, at_ms: i64) -> bool {
        let late_by_us = self.at_us.saturating_sub(at_ms.saturating_mul(1_000));
        (-TIMELY_AFTER_US..=TIMELY_BEFORE_US).contains(&late_by_us)
    }
}

/// A table partition: a month of acceptance. The writer chooses it when it first writes a key, and it doesn't change until the row is
/// deleted. Reads don't filter by it, and figures don't depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Home(pub u32);

impl Home {
    /// Returns the month of acceptance in UTC, as `YYYYMM`; 0 for times outside the calendar.
    pub fn new(accepted: &Acceptance) -> Self {
        let month = DateTime::from_timestamp_micros(accepted.at_us).map_or(0, |at| at.year() * 100 + at.month() as i32);
        Self(u32::try_from(month).unwrap_or(0))
    }

    /// Returns whether retention has deleted this month, given the first month to keep. Values that aren't months never expire.
    pub fn is_expired(self, first_month: Self) -> bool {
        self.0 != 0 && self < first_month
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn accepted(at_us: i64) -> Acceptance {
        Acceptance { at_us, place: 0, identity: EventKey(1) }
    }

    #[test]
    fn home_is_the_utc_month_of_acceptance() {
        let new_year_us = 1_767_225_600_000_000;
        assert_eq!(Home::new(&accepted(new_year_us - 1)), Home(202_512));
        assert_eq!(Home::new(&accepted(new_year_us)), Home(202_601));
        assert_eq!(Home::new(&accepted(i64::MAX)), Home(0));
    }

    #[test]
    fn timely_is_24_hours_before_to_1_hour_after_acceptance() {
        let (now_ms, hour_ms) = (1_767_225_600_000, 3_600_000);
        let is_timely = |at_ms| accepted(now_ms * 1_000).is_timely(at_ms);
        assert!(is_timely(now_ms - 24 * hour_ms) && is_timely(now_ms + hour_ms));
        assert!(!is_timely(now_ms - 24 * hour_ms - 1) && !is_timely(now_ms + hour_ms + 1));
        assert!(!is_timely(i64::MIN) && !is_timely(i64::MAX));
    }

    #[test]
    fn precedence_follows_the_role_order() {
        let roles = SourceRole::ALL.map(Some).into_iter().chain([None]);
        let observers: Vec<Observer> = roles.map(|role| Observer { org: OrgId(Uuid::nil()), role, drain: None }).collect();
        assert!(observers.is_sorted_by_key(Observer::precedence));
    }
}
