//! Every request under its id, and what became of it.

use crate::oracle::Fate;
use std::collections::HashMap;

/// Requests by their ids, with their events and what became of them.
#[derive(Debug, Default)]
pub(super) struct Requests(pub(super) HashMap<String, (u64, Fate)>);

impl Requests {
    /// A request leaves; the id under which it does.
    pub(super) fn begin(&mut self, events: u64) -> String {
        let id = format!("chaos-{}", self.0.len());
        self.0.insert(id.clone(), (events, Fate::Unknown));
        id
    }

    pub(super) fn settle(&mut self, id: &str, fate: Fate) {
        if let Some((_, known)) = self.0.get_mut(id) {
            *known = fate;
        }
    }
}
