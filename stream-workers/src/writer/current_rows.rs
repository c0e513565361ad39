//! Collects the current rows needed for a block of reports, and merges them.

use super::interrupted_rows::Interrupted;
use super::progress::NextOffsets;
use super::row_cache::bytes_of;
use super::state::State;
use super::statements::{Server, WriterExit};
use crate::consume::Origin;
use crate::metrics;
use crate::record::new_report::NewReport;
use schemas::event_key::EventKey;
use std::collections::{HashMap, HashSet};
use store::facts::Facts;
use store::key_index::KeyPlace;
use store::merge::{Changes, CurrentRows, keys_to_look_up, merge};
use store::report::Report;
use store::row::{EventRow, ReportPlace, ReportWrite};
use store::row_binary::Encoder;
use store::tables::decode_events;

/// A block's reports by group, with the current rows that are known so far.
pub(super) struct GatheredRows {
    groups: HashMap<EventKey, Vec<Report<Facts>>>,
    rows: HashMap<EventKey, EventRow<Facts>>,
    absent: HashSet<EventKey>,
    /// Rows of `reports` from an interrupted block whose records became dead letters or were dropped from the log.
    lost: HashMap<EventKey, Interrupted>,
    /// Size of `rows`.
    bytes: usize,
}

/// Maximum size of current rows and responses, in bytes, unless a block has one record.
type MostBytes = Option<usize>;

impl GatheredRows {
    /// Looks up the current rows of everything that these reports, up to these offsets, can change; `None` if the rows are too large.
    pub(super) async fn for_reports(
        reports: &[NewReport],
        next: &NextOffsets,
        (state, server, most_bytes): (&State, &Server, MostBytes),
    ) -> Result<Option<Self>, WriterExit> {
        let mut groups: HashMap<EventKey, Vec<Report<Facts>>> = HashMap::with_capacity(reports.len());
        for NewReport { report, .. } in reports {
            groups.entry(report.group()).or_default().push(report.clone());
        }
        let lost = lost(reports, next, state);
        let mut gathered = Self { groups, rows: HashMap::new(), absent: HashSet::new(), lost, bytes: 0 };
        // The rows of shared events contain further keys.
        let is_small = gathered.look_up(gathered.first_keys(), (state, server, most_bytes)).await?
            && gathered.look_up(gathered.further_keys(), (state, server, most_bytes)).await?;
        Ok(is_small.then_some(gathered))
    }

    /// Returns the keys of the groups and of the reports, each with its site.
    fn first_keys(&self) -> HashMap<EventKey, String> {
        let mut keys = HashMap::with_capacity(self.groups.len());
        for (group, new) in &self.groups {
            let shared = new[0].shared_key.map(|_| *group);
            keys.extend(shared.into_iter().chain(keys_to_look_up(None, new)).map(|key| (key, site_of(new))));
        }
        for (identity, row) in &self.lost {
            keys.extend(row.shared_key.into_iter().chain([*identity]).map(|key| (key, row.site.to_string())));
        }
        keys
    }

    /// Returns the keys of reports that are in shared events.
    fn further_keys(&self) -> HashMap<EventKey, String> {
        let mut keys = HashMap::new();
        for (group, new) in self.groups.iter().filter(|(_, new)| new[0].shared_key.is_some()) {
            let stored = self.rows.get(group).into_iter().flat_map(|row| &row.reports).map(|report| report.accepted.identity);
            let unknown = stored.filter(|key| !self.rows.contains_key(key) && !self.absent.contains(key));
            keys.extend(unknown.map(|key| (key, site_of(new))));
        }
        keys
    }

    /// Looks up current rows. Returns false if they are too large.
    async fn look_up(
        &mut self,
        unknown: HashMap<EventKey, String>,
        (state, server, most_bytes): (&State, &Server, MostBytes),
    ) -> Result<bool, WriterExit> {
        let (mut places, mut fetched) = (Encoder::default(), 0);
        for (key, site) in unknown {
            match (state.index.get(key), state.row_cache.get(key)) {
                (None, _) => drop(self.absent.insert(key)),
                (Some(_), Some(row)) => self.add(row.clone()),
                (Some(KeyPlace { at_ms, .. }), None) => {
                    // Treat the key as absent until it is found, because another key may have the same fingerprint.
                    self.absent.insert(key);
                    fetched += 1;
                    places.text(&site);
                    places.i64(at_ms);
                    places.u128(key.0);
                }
            }
        }
        if fetched > 0 {
            metrics::fetched(fetched);
            let Some(response) = server.fetch(include_str!("sql/fetch.sql"), &places.0, most_bytes).await else {
                return Ok(false);
            };
            for row in decode_events(&response)? {
                self.absent.remove(&row.key);
                self.add(row);
            }
        }
        Ok(most_bytes.is_none_or(|most| self.bytes <= most))
    }

    fn add(&mut self, row: EventRow<Facts>) {
        self.bytes += bytes_of(&row);
        self.rows.insert(row.key, row);
    }

    pub(super) fn known(&self) -> HashSet<EventKey> {
        self.rows.keys().copied().collect()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &EventRow<Facts>> {
        self.rows.values()
    }

    /// Returns rows of `reports` whose records can't be read again.
    pub(super) fn lost(&self) -> impl Iterator<Item = &Interrupted> {
        self.lost.values()
    }

    pub(super) fn merge(&self, state: &State) -> Changes<Facts> {
        let mut changes = Changes::default();
        for (group, new) in &self.groups {
            let joined = new[0].shared_key.and_then(|_| self.rows.get(group)).cloned();
            let keys = keys_to_look_up(joined.as_ref(), new);
            let standalone = keys.iter().filter_map(|key| self.rows.get(key)).cloned().collect();
            let interrupted =
                keys.iter().filter(|key| !self.lost.contains_key(key)).filter_map(|key| state.interrupted_rows.get(*key));
            let interrupted = interrupted.map(|row| row.written).collect();
            changes.extend(merge(&CurrentRows { joined, standalone, interrupted, first_month: state.first_month }, new));
        }
        if !self.lost.is_empty() {
            changes.reports.extend(self.orphans(&changes));
        }
        changes
    }

    /// Returns deletions for rows of `reports` that no event will ever refer to.
    fn orphans(&self, changes: &Changes<Facts>) -> Vec<ReportWrite> {
        let written: HashSet<ReportPlace> = changes.reports.iter().map(ReportWrite::place).collect();
        let is_stored = |row: &Interrupted| {
            let identity = row.written.place.identity;
            let events = row.shared_key.into_iter().chain([identity]).filter_map(|key| self.rows.get(&key));
            events.flat_map(|event| &event.reports).any(|report| report.accepted.identity == identity)
        };
        let orphans = self.lost.values().filter(|row| !is_stored(row)).map(|row| row.written.place);
        orphans.filter(|place| !written.contains(place)).map(ReportWrite::Tombstone).collect()
    }
}

fn site_of(new: &[Report<Facts>]) -> String {
    new[0].site.as_ref().map(|site| site.as_str().to_owned()).unwrap_or_default()
}

/// Returns an interrupted block's rows whose records are before these offsets but whose reports weren't read again.
fn lost(reports: &[NewReport], next: &NextOffsets, state: &State) -> HashMap<EventKey, Interrupted> {
    let mut read_again = state.interrupted_rows.read_again(next).peekable();
    if read_again.peek().is_none() {
        return HashMap::new();
    }
    let came: HashSet<(Origin, EventKey)> = reports.iter().map(|new| (new.origin, new.report.accepted.identity)).collect();
    let identity = |row: &Interrupted| row.written.place.identity;
    let lost = read_again.filter(|row| !came.contains(&(row.origin, identity(row))));
    lost.map(|row| (identity(row), row.clone())).collect()
}
