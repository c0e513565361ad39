//! The merge function: computes the rows to write from the current rows and new reports.
//!
//! The stored rows depend only on the set of reports accepted so far, not on their order, repeats or division into blocks:
//!
//! - Of the copies of a report (same identity), the first accepted counts (docs/api/event-keys.md#first-report).
//! - The first accepted report of each observer joins the event. Of more than 32 observers, the 32 that reported first join.
//! - Every other report is an event of its own, whose key is the report's identity.
//!
//! `merge::properties` compares this with a model that knows all reports. The current rows are enough input: when a report moves
//! out of an event, its entry moves with it, and it can rejoin only if an earlier copy of it arrives.

mod arrange;
mod changes;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod properties;

use crate::report::{Home, Report};
use crate::row::{EventRow, EventWrite, ReportWrite, WrittenReport};
use arrange::{Arrangement, first_copies};
use schemas::event_key::EventKey;

/// Maximum number of reports, and therefore of observers, per event. Limits the row size if an attacker uses many drains.
pub const MAX_OBSERVERS: usize = 32;

/// The current rows of a report group; see [`keys_to_look_up`].
#[derive(Clone, Debug)]
pub struct CurrentRows<F> {
    /// The row of the group's shared key.
    pub joined: Option<EventRow<F>>,
    pub standalone: Vec<EventRow<F>>,
    /// Rows of `reports` from an interrupted block whose reports are not in `events` yet. Only a new writer's first block has any, and it
    /// must cover the records that these rows come from. Otherwise, part of the interrupted block could stay visible without the rest, or a
    /// report could get a second row.
    pub interrupted: Vec<WrittenReport>,
    /// The first month that retention keeps. Earlier months have no rows and get no new ones.
    pub first_month: Home,
}

impl<F> Default for CurrentRows<F> {
    fn default() -> Self {
        Self { joined: None, standalone: Vec::new(), interrupted: Vec::new(), first_month: Home(0) }
    }
}

/// The rows to write, in the order of insertion: `reports`, `events_first`, `events`. Each list is one statement, or part of
/// one: statements of different groups can be combined.
///
/// `reports` is first because `events` alone determines what is stored: a report that is in `events` is never written to `reports`
/// again. A statement over several partitions isn't atomic. `events_first` contains the rows that must be visible before the
/// others, because a report moves from the shared event to a partition that another report leaves. In each partition it deletes
/// as many events as it adds, so totals are never wrong in between.
///
/// A list has at most one row for each place.
#[derive(Clone, Debug)]
pub struct Changes<F> {
    pub reports: Vec<ReportWrite>,
    /// Rows of `events` to insert before the others; nearly always empty.
    pub events_first: Vec<EventWrite<F>>,
    pub events: Vec<EventWrite<F>>,
}

impl<F> Default for Changes<F> {
    fn default() -> Self {
        Self { reports: Vec::new(), events_first: Vec::new(), events: Vec::new() }
    }
}

impl<F> Changes<F> {
    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty() && self.events_first.is_empty() && self.events.is_empty()
    }

    pub fn extend(&mut self, other: Self) {
        self.reports.extend(other.reports);
        self.events_first.extend(other.events_first);
        self.events.extend(other.events);
    }
}

/// Returns the keys of the rows that [`merge`] needs: the new reports' keys, because each report could be an event of its own, and the keys
/// of the shared event's reports, because an interrupted block may have written them. Requires the row of the shared key.
pub fn keys_to_look_up<F>(joined: Option<&EventRow<F>>, new: &[Report<F>]) -> Vec<EventKey> {
    let stored = joined.into_iter().flat_map(|row| &row.reports).map(|report| report.accepted.identity);
    let mut keys: Vec<EventKey> = stored.chain(new.iter().map(|report| report.accepted.identity)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Merges new reports of one [group](Report::group), in any order, into its current rows.
///
/// Writes no rows for stored reports, even if their `facts` differ: a report with the same identity and acceptance doesn't change a row.
/// Skips reports accepted before the first month, unless another copy is stored.
pub fn merge<F: Clone>(current: &CurrentRows<F>, new: &[Report<F>]) -> Changes<F> {
    merge_with_limit(current, new, MAX_OBSERVERS)
}

/// Like [`merge`], with another observer limit. For tests.
pub(crate) fn merge_with_limit<F: Clone>(current: &CurrentRows<F>, new: &[Report<F>], most_observers: usize) -> Changes<F> {
    let Some(report) = new.first() else { return Changes::default() };
    let firsts = first_copies(current, new);
    let reports = changes::report_writes(current, new, &firsts);
    let most_observers = if report.shared_key.is_some() { most_observers } else { 0 };
    let arrangement = Arrangement::new(current, firsts, most_observers);
    let (events_first, events) = changes::event_writes(current, report.group(), report.site.as_ref(), arrangement);
    Changes { reports, events_first, events }
}
