//! The current rows that a block of reports needs, and the merge.

use super::new_report::NewReport;
use super::server::{Ended, Server};
use super::state::State;
use crate::metrics;
use schemas::event_key::EventKey;
use std::collections::{HashMap, HashSet};
use store::facts::Facts;
use store::key_index::KeyPlace;
use store::merge::{Changes, Current, keys_to_look_up, merge};
use store::report::Report;
use store::row::EventRow;
use store::row_binary::Encoder;
use store::tables::decode_events;

/// The reports of a block by group, with the current rows that are known so far.
pub(super) struct Gathered {
    groups: HashMap<EventKey, Vec<Report<Facts>>>,
    rows: HashMap<EventKey, EventRow<Facts>>,
    absent: HashSet<EventKey>,
}

impl Gathered {
    /// Looks up the current rows of everything that these reports can change.
    pub(super) async fn of(reports: &[NewReport], state: &State, server: &Server) -> Result<Self, Ended> {
        let mut groups: HashMap<EventKey, Vec<Report<Facts>>> = HashMap::with_capacity(reports.len());
        for NewReport { report, .. } in reports {
            groups.entry(report.group()).or_default().push(report.clone());
        }
        let mut gathered = Self { groups, rows: HashMap::new(), absent: HashSet::new() };
        // The rows of shared events name further keys.
        loop {
            let unknown = gathered.unknown();
            if unknown.is_empty() {
                return Ok(gathered);
            }
            gathered.look_up(unknown, state, server).await?;
        }
    }

    /// The keys to look up next, with the site of each.
    fn unknown(&self) -> HashMap<EventKey, String> {
        let is_unknown = |key: &EventKey| !self.rows.contains_key(key) && !self.absent.contains(key);
        let mut unknown = HashMap::new();
        for (group, new) in &self.groups {
            let is_shared = new[0].shared_key.is_some();
            let site = || new[0].site.as_ref().map(|site| site.as_str().to_owned()).unwrap_or_default();
            let joined = self.rows.get(group).filter(|_| is_shared);
            let keys = is_shared.then_some(*group).into_iter().chain(keys_to_look_up(joined, new));
            unknown.extend(keys.filter(is_unknown).map(|key| (key, site())));
        }
        unknown
    }

    async fn look_up(&mut self, unknown: HashMap<EventKey, String>, state: &State, server: &Server) -> Result<(), Ended> {
        let (mut places, mut fetched) = (Encoder::default(), 0);
        for (key, site) in unknown {
            match (state.index.get(key), state.hot.get(key)) {
                (None, _) => drop(self.absent.insert(key)),
                (Some(_), Some(row)) => drop(self.rows.insert(key, row.clone())),
                (Some(KeyPlace { at_ms, .. }), None) => {
                    // Until it is found. Another key may have its fingerprint, or retention may have dropped its row.
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
            let response = server.fetch(include_str!("sql/fetch.sql"), &places.0).await;
            for row in decode_events(&response)? {
                self.absent.remove(&row.key);
                self.rows.insert(row.key, row);
            }
        }
        Ok(())
    }

    /// Keys that have a row.
    pub(super) fn known(&self) -> HashSet<EventKey> {
        self.rows.keys().copied().collect()
    }

    /// The current rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = &EventRow<Facts>> {
        self.rows.values()
    }

    /// Returns the rows to write.
    pub(super) fn merge(&self, state: &State) -> Changes<Facts> {
        let mut changes = Changes::default();
        for (group, new) in &self.groups {
            let joined = new[0].shared_key.and_then(|_| self.rows.get(group)).cloned();
            let keys = keys_to_look_up(joined.as_ref(), new);
            let standalone = keys.iter().filter_map(|key| self.rows.get(key)).cloned().collect();
            let interrupted = keys.iter().filter_map(|key| state.interrupted.get(key)).copied().collect();
            changes.extend(merge(&Current { joined, standalone, interrupted }, new));
        }
        changes
    }
}
