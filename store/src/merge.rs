//! The merge function: current rows and new reports in, rows to write out.
//!
//! The stored rows are always the same function of the set of all reports accepted so far, whatever their order,
//! repeats and cuts:
//!
//! - Of the copies of a report (same identity) the first accepted counts (docs/api/event-keys.md#first-report).
//! - The first accepted report of each observer joins the event; of more than 32 observers, the 32 that reported first.
//! - Every other report is an event of its own, whose key is the report's identity.
//!
//! `merge::properties` compares this with a model that knows all reports. The current rows are enough to get there: a
//! report that leaves an event always takes its entry along, and no report ever returns to an event except by an
//! earlier copy of itself.

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

/// The most reports, and so observers, of one event. Without a limit an attacker with many drains could grow one row
/// without end.
pub const MOST_OBSERVERS: usize = 32;

/// The current rows of a group of reports; see [`keys_to_look_up`].
#[derive(Clone, Debug)]
pub struct Current<F> {
    /// The row of the group's shared key.
    pub joined: Option<EventRow<F>>,
    /// Rows of reports that stand alone.
    pub standalone: Vec<EventRow<F>>,
    /// Rows of `reports` that an interrupted block wrote, whose reports are not in `events` yet. Only the first block of
    /// a new writer has any, and it must cover the records that they come from: otherwise some of that block could stay
    /// visible without the rest, or a report could get a second row.
    pub interrupted: Vec<WrittenReport>,
    /// The first month that retention keeps. No row is in an earlier one, and none is written to it.
    pub first_month: Home,
}

impl<F> Default for Current<F> {
    fn default() -> Self {
        Self { joined: None, standalone: Vec::new(), interrupted: Vec::new(), first_month: Home(0) }
    }
}

/// The rows to write, in the order of insertion: `reports`, then `events_first`, then `events`. Each is one
/// statement, or part of one: statements of different groups can be combined.
///
/// `reports` goes first because `events` alone decides what is known: a report that is in `events` is never written
/// to `reports` again. A statement over several partitions isn't atomic. `events_first` contains the rows that must
/// be visible before the others, because a report moves from the shared event to a partition that another report
/// leaves. Each partition of it deletes as many events as it adds, so no total is wrong in between.
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
    /// Returns whether everything is stored already.
    pub fn is_empty(&self) -> bool {
        self.reports.is_empty() && self.events_first.is_empty() && self.events.is_empty()
    }

    /// Adds the changes of another group.
    pub fn extend(&mut self, other: Self) {
        self.reports.extend(other.reports);
        self.events_first.extend(other.events_first);
        self.events.extend(other.events);
    }
}

/// The keys of the rows that [`merge`] needs: those of the new reports that could stand alone and, because an
/// interrupted block may have written them, those of the reports that are in the shared event. The row of the shared
/// key must be known before.
pub fn keys_to_look_up<F>(joined: Option<&EventRow<F>>, new: &[Report<F>]) -> Vec<EventKey> {
    let stored = joined.into_iter().flat_map(|row| &row.reports).map(|report| report.accepted.identity);
    let mut keys: Vec<EventKey> = stored.chain(new.iter().map(|report| report.accepted.identity)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Merges new reports of one [group](Report::group), in any order, into its current rows.
///
/// Returns nothing for reports that are stored already, even if their `facts` differ: a report with the same identity
/// and acceptance never changes what is stored. Skips reports that were accepted before the first month, unless another copy is
/// stored.
pub fn merge<F: Clone>(current: &Current<F>, new: &[Report<F>]) -> Changes<F> {
    merge_within(current, new, MOST_OBSERVERS)
}

/// Like [`merge`], with another limit, for tests.
pub(crate) fn merge_within<F: Clone>(current: &Current<F>, new: &[Report<F>], most_observers: usize) -> Changes<F> {
    let Some(report) = new.first() else { return Changes::default() };
    let firsts = first_copies(current, new);
    let reports = changes::report_writes(current, new, &firsts);
    let most_observers = if report.shared_key.is_some() { most_observers } else { 0 };
    let arrangement = Arrangement::new(current, firsts, most_observers);
    let (events_first, events) = changes::event_writes(current, report.group(), report.site.as_ref(), arrangement);
    Changes { reports, events_first, events }
}
