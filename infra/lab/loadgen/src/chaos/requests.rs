//! Every request under its id, and what became of it.

use crate::oracle::Fate;
use std::collections::HashMap;

/// What the ids of bodies of logs begin with.
pub(super) const LOG: &str = "chaos-log-";

/// Requests by their ids, with their events and what became of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests(pub(super) HashMap<String, (u64, Fate)>);

impl Requests {
    /// A request leaves; the id under which it does.
    pub(super) fn begin(&mut self, events: u64) -> String {
        let id = format!("chaos-{}", self.0.len());
        self.0.insert(id.clone(), (events, Fate::Unknown));
        id
    }

    /// The body of a log leaves, of which so many lines are to be kept; of one that is cut off, nobody knows how many.
    pub(super) fn begin_log(&mut self, kept: u64) -> String {
        let id = format!("{LOG}{}", self.0.len());
        self.0.insert(id.clone(), (kept, Fate::Unknown));
        id
    }

    pub(super) fn settle(&mut self, id: &str, fate: Fate) {
        if let Some((_, known)) = self.0.get_mut(id) {
            *known = fate;
        }
    }
}
