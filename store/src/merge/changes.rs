//! The rows that differ from the stored ones, and the partitions of new rows.

use super::CurrentRows;
use super::arrange::{Arrangement, FirstCopies};
use crate::report::{Acceptance, Home, Observer, Report};
use crate::row::{Entry, EventPlace, EventRow, EventWrite, ReportPlace, ReportWrite, WrittenReport};
use schemas::event_key::EventKey;
use schemas::site::Site;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the rows to write to `reports` for first copies that are not stored yet.
pub(super) fn report_writes<F>(current: &CurrentRows<F>, new: &[Report<F>], firsts: &FirstCopies<F>) -> Vec<ReportWrite> {
    let mut written: BTreeMap<EventKey, WrittenReport> = BTreeMap::new();
    for row in current.joined.iter().chain(&current.standalone) {
        let stored = row.reports.iter().map(|entry| WrittenReport { place: entry.place(), accepted: entry.accepted });
        written.extend(stored.map(|stored| (stored.place.identity, stored)));
    }
    // Interrupted rows are newer than `events`.
    written.extend(current.interrupted.iter().map(|written| (written.place.identity, *written)));
    let identities: BTreeSet<EventKey> = new.iter().map(|report| report.accepted.identity).collect();
    let mut writes = Vec::new();
    for first in identities.iter().filter_map(|identity| firsts.get(identity)) {
        let place = first.place();
        let former = written.get(&place.identity);
        if former.is_some_and(|former| former.accepted <= first.accepted) {
            continue;
        }
        writes.extend(former_place(former, place).map(ReportWrite::Tombstone));
        writes.push(ReportWrite::Row(WrittenReport { place, accepted: first.accepted }));
    }
    writes
}

/// Returns the former place of a report's row if it is different.
fn former_place(former: Option<&WrittenReport>, place: ReportPlace) -> Option<ReportPlace> {
    former.map(|former| former.place).filter(|former| *former != place)
}

/// Returns the rows of `events` to insert first, and the other rows.
pub(super) fn event_writes<F: Clone>(
    current: &CurrentRows<F>,
    group: EventKey,
    site: Option<&Site>,
    arrangement: Arrangement<F>,
) -> (Vec<EventWrite<F>>, Vec<EventWrite<F>>) {
    let stored: BTreeMap<EventKey, &EventRow<F>> = current.standalone.iter().map(|row| (row.key, row)).collect();
    let homes = Homes::new(current, &stored, &arrangement);
    let (mut first, mut others) = (Vec::new(), Vec::new());
    if let Some(home) = homes.joined {
        let row = EventRow { key: group, site: site.cloned(), home, reports: arrangement.joined };
        others.extend(replace(current.joined.as_ref(), row));
    }
    for entry in arrangement.standalone {
        let key = entry.accepted.identity;
        let former = stored.get(&key).copied();
        let home = former.map_or_else(|| homes.home_of_new(&entry), |row| row.home);
        let row = EventRow { key, site: site.cloned(), home, reports: vec![entry] };
        let writes = if homes.inherited.contains_key(&key) && !homes.is_joined(home) { &mut first } else { &mut others };
        writes.extend(replace(former, row));
    }
    for (place, has_heir) in homes.vacated {
        let is_first = has_heir && homes.joined != Some(place.home);
        if is_first { &mut first } else { &mut others }.push(EventWrite::Tombstone(place));
    }
    (first, others)
}

/// Returns the writes that replace the former row. Empty if the reports are the same.
fn replace<F>(former: Option<&EventRow<F>>, row: EventRow<F>) -> Vec<EventWrite<F>> {
    let accepted = |row: &EventRow<F>| row.reports.iter().map(|report| report.accepted).collect::<Vec<Acceptance>>();
    let Some(former) = former else { return vec![EventWrite::Row(row)] };
    if accepted(former) == accepted(&row) {
        return Vec::new();
    }
    let place = former.place();
    let tombstone = (place != row.place()).then_some(EventWrite::Tombstone(place));
    tombstone.into_iter().chain([EventWrite::Row(row)]).collect()
}

/// Partitions of rows that are not stored yet.
struct Homes {
    /// The first month that retention keeps.
    first_month: Home,
    joined: Option<Home>,
    is_new: bool,
    /// Identities of the reports in the stored shared event.
    stored: BTreeSet<EventKey>,
    /// Standalone events to delete because an earlier copy of their report joins the shared event, and for each, whether a new standalone
    /// event gets its home.
    vacated: Vec<(EventPlace, bool)>,
    /// New standalone events that take over a vacated event's home, with the place of the vacated event.
    inherited: BTreeMap<EventKey, EventPlace>,
}

impl Homes {
    fn new<F>(current: &CurrentRows<F>, alone: &BTreeMap<EventKey, &EventRow<F>>, arrangement: &Arrangement<F>) -> Self {
        let identity = |entry: &Entry<F>| entry.accepted.identity;
        let stored: BTreeSet<EventKey> = current.joined.iter().flat_map(|row| &row.reports).map(identity).collect();
        let joining: BTreeSet<EventKey> = arrangement.joined.iter().map(identity).collect();
        let vacated = alone.values().filter(|row| joining.contains(&row.key));
        let mut vacated: Vec<_> = vacated.filter_map(|row| Some((row.place(), row.reports.first()?.observer))).collect();
        vacated.sort_unstable();
        let new = arrangement.standalone.iter().filter(|entry| !alone.contains_key(&identity(entry)));
        let new: Vec<_> = new.map(|entry| (identity(entry), entry.observer)).collect();
        let inherited = heirs(&vacated, new, &stored);
        let vacated = vacated.into_iter().map(|(place, _)| (inherited.values().any(|heir| *heir == place), place));
        let vacated = vacated.map(|(has_heir, place)| (place, has_heir)).collect();
        let home_of_first = arrangement.joined.first().map(|first| Home::new(&first.accepted).max(current.first_month));
        let joined = current.joined.as_ref().map(|row| row.home).or(home_of_first);
        Self { first_month: current.first_month, joined, is_new: current.joined.is_none(), stored, vacated, inherited }
    }

    /// Returns the home of a new standalone event. A report that leaves the shared event inherits the home of one that joins it, or stays
    /// in the shared event's home. Any other report gets its month of acceptance: its correlation id can be in use for years, and retention
    /// must not drop all such reports with the first month.
    fn home_of_new<F>(&self, entry: &Entry<F>) -> Home {
        let identity = entry.accepted.identity;
        let is_with_joined = self.is_new || self.stored.contains(&identity);
        let inherited = self.inherited.get(&identity).map(|place| place.home);
        inherited.or(self.joined.filter(|_| is_with_joined)).unwrap_or_else(|| Home::new(&entry.accepted).max(self.first_month))
    }

    fn is_joined(&self, home: Home) -> bool {
        self.joined == Some(home)
    }
}

/// Chooses for each vacated event the new standalone event that gets its home. Prefers one by the same observer, so that the observer's
/// figure stays correct between the inserts, and then one that leaves the shared event.
fn heirs(
    vacated: &[(EventPlace, Observer)],
    mut new: Vec<(EventKey, Observer)>,
    stored: &BTreeSet<EventKey>,
) -> BTreeMap<EventKey, EventPlace> {
    let mut heirs = BTreeMap::new();
    let is_better = |own: &Observer, (identity, observer): &(EventKey, Observer)| (observer != own, !stored.contains(identity));
    for is_own in [true, false] {
        for (place, observer) in vacated {
            let is_served = heirs.values().any(|heir| heir == place);
            let candidates = new.iter().enumerate().filter(|(_, (_, other))| !is_served && (!is_own || other == observer));
            let Some((n, _)) = candidates.min_by_key(|(_, candidate)| is_better(observer, candidate)) else { continue };
            heirs.insert(new.swap_remove(n).0, place.clone());
        }
    }
    heirs
}
