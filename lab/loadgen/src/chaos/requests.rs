//! All requests by id, with their outcomes.

use crate::oracle::Fate;
use std::collections::HashMap;

/// Prefix of the ids of log bodies.
pub(super) const LOG: &str = "chaos-log-";

/// Requests by id, with the number of events and the outcome of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(pub(super) HashMap<String, (u64, Fate)>);

impl Requests {
    pub(super) fn begin(&mut self, events: u64) -> String {
        let id = format!("chaos-{}", self.0.len());
        self.0.insert(id.clone(), (events, Fate::Unknown));
        id
    }

    /// Adds a log body of which `kept` lines must be stored. For an incomplete body, that number is unknown, so `kept` is 0.
    pub(super) fn begin_log(&mut self, kept: u64) -> String {
        let id = format!("{LOG}{}", self.0.len());
        self.0.insert(id.clone(), (kept, Fate::Unknown));
        id
    }

    pub(super) fn record_fate(&mut self, id: &str, fate: Fate) {
        if let Some((_, known)) = self.0.get_mut(id) {
            *known = fate;
        }
    }
}
