//! A body's hourly counts, for drain coverage (docs/api/drains.md#coverage).

use super::line_fields::Reason;
use super::line_processor::{LineOutcome, OTHER_HOST, ProcessedLine, outline};
use crate::metrics;
use schemas::log::{FailedFetch, LogEvent};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

const HOUR_MS: i64 = 3_600_000;
/// More hours than a year has. Only exports of whole archives contain more.
const MAX_HOURS: usize = 9_000;
/// Maximum number of unreadable lines whose outline is stored.
const MAX_BAD_LINES: usize = 10;

/// One hour of one body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Hour {
    pub(super) lines: u64,
    pub(super) kept: u64,
    pub(super) people: u64,
    pub(super) bad: u64,
    pub(super) dropped: BTreeMap<Reason, u64>,
    /// Bot requests that returned no content.
    pub(super) refused: u64,
    pub(super) bytes: u64,
    /// Time of the newest line.
    pub(super) newest_ms: i64,
}

/// A line that could not be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    pub(super) reason: Reason,
    pub(super) outline: String,
}

/// Data to store for some lines.
#[derive(Debug, Default)]
pub(super) struct LineBatch {
    pub(super) events: Vec<LogEvent>,
    pub(super) failed_fetches: Vec<FailedFetch>,
}

impl LineBatch {
    pub(super) fn len(&self) -> usize {
        self.events.len() + self.failed_fetches.len()
    }
}

/// Counts of one body.
pub(super) struct BodyCounts {
    /// Counts by start of the hour, in milliseconds UTC.
    pub(super) hours: BTreeMap<i64, Hour>,
    pub(super) bad_lines: Vec<BadLine>,
    pub(super) lines: u64,
    digest: Sha256,
    /// Time for lines without a time.
    now_ms: i64,
}

impl BodyCounts {
    pub(super) fn new(now_ms: i64) -> Self {
        Self { hours: BTreeMap::new(), bad_lines: Vec::new(), lines: 0, digest: Sha256::new(), now_ms }
    }

    /// Counts a line, and adds its stored data to the batch.
    pub(super) fn count(&mut self, line: &[u8], judged: ProcessedLine, batch: &mut LineBatch) {
        let ProcessedLine { outcome, at_ms, mark, .. } = judged;
        if matches!(outcome, LineOutcome::Trial) {
            return;
        }
        self.lines += 1;
        self.digest.update(mark);
        self.digest.update((line.len() as u64).to_be_bytes());
        if at_ms.is_none() {
            // Unreadable lines look alike. Within an hour, repeated ones count once.
            self.digest.update(self.now_ms.div_euclid(HOUR_MS).to_be_bytes());
        }
        // Senders choose the hosts and times of lines for other hosts, so these lines don't create hours.
        let at_ms = at_ms.filter(|_| !matches!(outcome, LineOutcome::Dropped(OTHER_HOST))).unwrap_or(self.now_ms);
        let begin_ms = at_ms - at_ms.rem_euclid(HOUR_MS);
        let is_one_too_many = self.hours.len() >= MAX_HOURS && !self.hours.contains_key(&begin_ms);
        let (begin_ms, outcome) = match is_one_too_many {
            true => (self.now_ms - self.now_ms.rem_euclid(HOUR_MS), LineOutcome::Bad("too_many_hours")),
            false => (begin_ms, outcome),
        };
        let hour = self.hours.entry(begin_ms).or_default();
        hour.lines += 1;
        hour.bytes += line.len() as u64;
        hour.newest_ms = hour.newest_ms.max(at_ms);
        match outcome {
            LineOutcome::Kept(event) => {
                hour.kept += 1;
                batch.events.push(*event);
            }
            LineOutcome::Person | LineOutcome::Trial => hour.people += 1,
            LineOutcome::Dropped(reason) => *hour.dropped.entry(reason).or_default() += 1,
            LineOutcome::Refused(fetch) => {
                hour.refused += 1;
                batch.failed_fetches.push(*fetch);
            }
            LineOutcome::Bad(reason) => {
                hour.bad += 1;
                if self.bad_lines.len() < MAX_BAD_LINES {
                    self.bad_lines.push(BadLine { reason, outline: outline(line) });
                }
            }
        }
    }

    /// Returns the digest of a body and its results. A body that is sent again with the missing host has another digest.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut digest = self.digest.clone();
        for count in [self.sum(|hour| hour.kept), self.sum(|hour| hour.people), self.sum(|hour| hour.bad)] {
            digest.update(count.to_be_bytes());
        }
        digest.finalize().into()
    }

    /// Adds the counts to the metrics.
    pub(super) fn measure(&self, provider: &'static str) {
        let dropped = self.dropped().values().sum();
        let outcomes = [
            ("kept", self.sum(|hour| hour.kept)),
            ("people", self.sum(|hour| hour.people)),
            ("dropped", dropped),
            ("refused", self.sum(|hour| hour.refused)),
            ("bad", self.sum(|hour| hour.bad)),
        ];
        outcomes.into_iter().for_each(|(outcome, lines)| metrics::drain_lines(provider, outcome, lines));
    }

    /// Returns the sum of a count over all hours.
    pub(super) fn sum(&self, of: impl Fn(&Hour) -> u64) -> u64 {
        self.hours.values().map(of).sum()
    }

    /// Returns the dropped lines of all hours by reason.
    pub(super) fn dropped(&self) -> BTreeMap<Reason, u64> {
        let mut all: BTreeMap<Reason, u64> = BTreeMap::new();
        for (reason, lines) in self.hours.values().flat_map(|hour| &hour.dropped) {
            *all.entry(reason).or_default() += lines;
        }
        all
    }
}
