//! Maximum number of names in a response. Reporters can make up event types and agents, so the rest is returned as one sum.

use super::statement::Statement;
use schemas::event::{COMMERCE, EventType};

/// Maximum number of names per list. Standard event types come first, then those that the owner reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListLimits {
    /// Event types in a summary.
    pub(super) types: u64,
    /// Event types per URL or section.
    pub(super) types_of_page: u64,
    /// Agents in a summary.
    pub(super) agents: u64,
    /// Event types, agents or platforms in a series.
    pub(super) in_series: u64,
    /// Values of other splits in a series.
    pub(super) others_in_series: u64,
}

impl Default for ListLimits {
    fn default() -> Self {
        Self { types: 100, types_of_page: 20, agents: 1_000, in_series: 100, others_in_series: 1_000 }
    }
}

impl ListLimits {
    /// Binds a summary's limits.
    pub(super) fn in_summary(self, statement: Statement) -> Statement {
        statement.with("most_agents", self.agents).with("most_types", self.types).with("known", standard_types())
    }

    /// Binds the limits of pages by URL or section.
    pub(super) fn by_page(self, statement: Statement) -> Statement {
        statement.with("most_types", self.types_of_page).with("known", standard_types())
    }
}

/// Returns the standard event types, which reporters can't make up.
pub(super) fn standard_types() -> Vec<String> {
    EventType::SPECIFIED.iter().map(EventType::as_str).chain(COMMERCE).map(str::to_owned).collect()
}

/// The model used by tests.
#[cfg(test)]
pub(super) mod model {
    use std::cmp::Reverse;
    use std::collections::{BTreeMap, BTreeSet};

    /// Returns the names in a list limited to `most`: standard event types first, then those with the most events.
    pub(in crate::reads) fn listed<N: Ord + Clone>(
        events: &BTreeMap<N, u64>,
        most: u64,
        is_standard: impl Fn(&N) -> bool,
    ) -> BTreeSet<N> {
        listed_for_owner((events, &BTreeMap::new()), most, is_standard)
    }

    /// Like `listed`, but names with most events of the owner come before others.
    pub(in crate::reads) fn listed_for_owner<N: Ord + Clone>(
        (events, own): (&BTreeMap<N, u64>, &BTreeMap<N, u64>),
        most: u64,
        is_standard: impl Fn(&N) -> bool,
    ) -> BTreeSet<N> {
        let mut names: Vec<&N> = events.keys().collect();
        names.sort_by_key(|name| (!is_standard(name), Reverse(own.get(name)), Reverse(events[name]), *name));
        names.into_iter().take(most as usize).cloned().collect()
    }

    pub(in crate::reads) fn is_standard(event_type: &str) -> bool {
        !event_type.starts_with("com.")
    }
}
