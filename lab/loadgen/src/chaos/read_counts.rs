//! Counts reads during a load.

use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Debug, Default)]
pub(super) struct ReadCounts {
    /// Number of checked responses by surface.
    pub(super) checked: BTreeMap<&'static str, u64>,
    pub(super) failed: BTreeMap<&'static str, u64>,
    /// Rounds completed by the slowest reader.
    pub(super) rounds: u64,
    /// End of each round for a tenant, with the number of events of all tenants that had been read by then.
    pub(super) grown: Vec<(Instant, u64)>,
}

impl ReadCounts {
    /// Returns the time from `moment` to the first read with new data.
    pub(super) fn first_news_after(&self, moment: Instant) -> Option<Duration> {
        let before = self.grown.iter().take_while(|(at, _)| *at < moment).map(|(_, total)| *total).max().unwrap_or(0);
        let news = self.grown.iter().find(|(at, total)| *at >= moment && *total > before)?;
        Some(news.0 - moment)
    }

    pub(super) fn count(&mut self, surface: &'static str, is_checked: bool) {
        let counts = if is_checked { &mut self.checked } else { &mut self.failed };
        *counts.entry(surface).or_default() += 1;
    }

    pub(super) fn total<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
        let mut together = Self { rounds: u64::MAX, ..Self::default() };
        for one in all {
            for (sum, part) in [(&mut together.checked, &one.checked), (&mut together.failed, &one.failed)] {
                part.iter().for_each(|(surface, count)| *sum.entry(surface).or_default() += count);
            }
            together.rounds = together.rounds.min(one.rounds);
            together.grown.extend(&one.grown);
        }
        together.grown.sort_unstable();
        together
    }
}
