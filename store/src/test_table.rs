//! A table for tests. Of the rows at one place, the one with the largest version wins; of equal versions, the one inserted last.

use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub(crate) struct Table<P, R> {
    rows: BTreeMap<P, (u64, Option<R>)>,
}

impl<P, R> Default for Table<P, R> {
    fn default() -> Self {
        Self { rows: BTreeMap::new() }
    }
}

impl<P: Ord, R> Table<P, R> {
    /// Inserts a row, or a tombstone if it is `None`.
    pub(crate) fn insert(&mut self, version: u64, place: P, row: Option<R>) {
        if self.rows.get(&place).is_none_or(|(stored, _)| *stored <= version) {
            self.rows.insert(place, (version, row));
        }
    }

    /// Returns the rows that a read with `FINAL` returns.
    pub(crate) fn live_rows(&self) -> impl Iterator<Item = (&P, &R)> {
        self.rows.iter().filter_map(|(place, (_, row))| Some((place, row.as_ref()?)))
    }

    /// Returns the live rows with a larger version.
    pub(crate) fn newer_than(&self, version: u64) -> impl Iterator<Item = &R> {
        self.rows.values().filter(move |(own, _)| *own > version).filter_map(|(_, row)| row.as_ref())
    }

    pub(crate) fn get(&self, place: &P) -> Option<&R> {
        self.rows.get(place)?.1.as_ref()
    }

    pub(crate) fn largest_version(&self) -> u64 {
        self.rows.values().map(|(version, _)| *version).max().unwrap_or(0)
    }

    pub(crate) fn drop_where(&mut self, is_dropped: impl Fn(&P) -> bool) {
        self.rows.retain(|place, _| !is_dropped(place));
    }

    /// Removes tombstones, which a real server must never do.
    pub(crate) fn clean_up(&mut self) {
        self.rows.retain(|_, (_, row)| row.is_some());
    }
}
