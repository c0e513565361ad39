//! Decides which of a group's reports join the shared event.

use super::CurrentRows;
use crate::report::{Acceptance, Home, Observer, Report};
use crate::row::Entry;
use schemas::event_key::EventKey;
use std::collections::{BTreeMap, BTreeSet};

/// Each report's first accepted copy, by identity. If a stored and a new copy have the same acceptance, the stored one counts.
pub(super) type FirstCopies<F> = BTreeMap<EventKey, Entry<F>>;

pub(super) fn first_copies<F: Clone>(current: &CurrentRows<F>, new: &[Report<F>]) -> FirstCopies<F> {
    let mut firsts = FirstCopies::new();
    let rows = current.joined.iter().chain(&current.standalone);
    rows.flat_map(|row| &row.reports).for_each(|stored| keep_first(&mut firsts, stored.clone()));
    let interrupted: BTreeMap<EventKey, Home> =
        current.interrupted.iter().map(|written| (written.place.identity, written.place.home)).collect();
    let mut new: Vec<&Report<F>> = new.iter().collect();
    // The first copy determines the home of a report that is not stored yet.
    new.sort_by_key(|report| report.accepted);
    for report in new {
        let identity = report.accepted.identity;
        let home = interrupted.get(&identity).copied().or(firsts.get(&identity).map(|stored| stored.home));
        let own = Some(Home::new(&report.accepted)).filter(|own| !own.is_expired(current.first_month));
        let Some(home) = home.or(own) else { continue };
        let Report { accepted, observer, at_ms, facts, .. } = report.clone();
        keep_first(&mut firsts, Entry { accepted, observer, at_ms, home, facts });
    }
    firsts
}

fn keep_first<F>(firsts: &mut FirstCopies<F>, entry: Entry<F>) {
    let identity = entry.accepted.identity;
    if firsts.get(&identity).is_none_or(|first| entry.accepted < first.accepted) {
        firsts.insert(identity, entry);
    }
}

/// A group's reports by event, in order of acceptance.
pub(super) struct Arrangement<F> {
    /// Reports of the shared event, one per observer. Empty if there is no shared event.
    pub(super) joined: Vec<Entry<F>>,
    pub(super) standalone: Vec<Entry<F>>,
}

impl<F> Arrangement<F> {
    pub(super) fn new(current: &CurrentRows<F>, firsts: FirstCopies<F>, most_observers: usize) -> Self {
        let stored_alone: BTreeSet<Acceptance> =
            current.standalone.iter().flat_map(|row| &row.reports).map(|report| report.accepted).collect();
        // A stored standalone report joins only as an earlier copy, even if retention has deleted the reports accepted before it. Otherwise
        // a repeat would move it without a new row in `reports`, and a crash in between would lose it.
        let stays_alone = |first: &Entry<F>| stored_alone.contains(&first.accepted);
        let mut leads: BTreeMap<Observer, Acceptance> = BTreeMap::new();
        for first in firsts.values().filter(|first| !stays_alone(first)) {
            leads.entry(first.observer).and_modify(|lead| *lead = first.accepted.min(*lead)).or_insert(first.accepted);
        }
        let mut leads: Vec<Acceptance> = leads.into_values().collect();
        leads.sort_unstable();
        let joining: BTreeSet<Acceptance> = leads.into_iter().take(most_observers).collect();
        let mut entries: Vec<Entry<F>> = firsts.into_values().collect();
        entries.sort_by_key(|entry| entry.accepted);
        let (joined, standalone) = entries.into_iter().partition(|entry| joining.contains(&entry.accepted));
        Self { joined, standalone }
    }
}
