//! What readers have read under load, counted.

use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    /// Answers that were checked, by surface.
    pub(super) checked: BTreeMap<&'static str, u64>,
    /// Reads that were not answered, by surface.
    pub(super) failed: BTreeMap<&'static str, u64>,
    /// Rounds of the reader that made the fewest.
    pub(super) rounds: u64,
    /// When a round of a tenant had ended, and how many events of all tenants had been shown by then.
    pub(super) grown: Vec<(Instant, u64)>,
}

impl Watched {
    /// How long after `moment` the first read showed something new.
    pub(super) fn first_news_after(&self, moment: Instant) -> Option<Duration> {
        let before = self.grown.iter().take_while(|(at, _)| *at < moment).map(|(_, total)| *total).max().unwrap_or(0);
        let news = self.grown.iter().find(|(at, total)| *at >= moment && *total > before)?;
        Some(news.0 - moment)
    }

    pub(super) fn count(&mut self, surface: &'static str, is_checked: bool) {
        let counts = if is_checked { &mut self.checked } else { &mut self.failed };
        *counts.entry(surface).or_default() += 1;
    }

    /// What all of these have read together.
    pub(super) fn together<'a>(all: impl Iterator<Item = &'a Self>) -> Self {
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
