//! Current rows of events that were written lately. The second report of an event nearly always comes within minutes, and fetching a row
//! costs ClickHouse more than inserting one.

use schemas::event_key::EventKey;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use store::facts::Facts;
use store::row::EventRow;
use tokio::time::Instant;

/// How long a row is kept after it was written.
const KEEP: Duration = Duration::from_secs(15 * 60);
/// Most rows: some 200 MB.
const MAX_ROWS: usize = 400_000;

/// The rows, by key.
#[derive(Default)]
pub(super) struct HotRows {
    rows: HashMap<EventKey, (u64, EventRow<Facts>)>,
    /// Oldest first; a row that was written again is in it several times, and only its last number counts.
    written: VecDeque<(Instant, u64, EventKey)>,
    count: u64,
}

impl HotRows {
    pub(super) fn get(&self, key: EventKey) -> Option<&EventRow<Facts>> {
        self.rows.get(&key).map(|(_, row)| row)
    }

    pub(super) fn put(&mut self, row: EventRow<Facts>, now: Instant) {
        self.count += 1;
        self.written.push_back((now, self.count, row.key));
        self.rows.insert(row.key, (self.count, row));
    }

    pub(super) fn remove(&mut self, key: EventKey) {
        self.rows.remove(&key);
    }

    /// Removes rows that are too old or too many.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((written, number, key)) = self.written.front().copied() {
            if now.duration_since(written) < KEEP && self.rows.len() <= MAX_ROWS {
                return;
            }
            self.written.pop_front();
            if self.rows.get(&key).is_some_and(|(last, _)| *last == number) {
                self.rows.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::report::Home;

    fn row(key: u128) -> EventRow<Facts> {
        EventRow { key: EventKey(key), site: None, home: Home(202_611), reports: Vec::new() }
    }

    #[test]
    fn rows_expire_after_their_last_write() {
        let (mut hot, begin) = (HotRows::default(), Instant::now());
        hot.put(row(1), begin);
        hot.put(row(2), begin);
        hot.put(row(1), begin + KEEP / 2);
        hot.expire(begin + KEEP);
        assert!(hot.get(EventKey(1)).is_some() && hot.get(EventKey(2)).is_none());
        hot.expire(begin + KEEP / 2 + KEEP);
        assert!(hot.get(EventKey(1)).is_none());
    }

    #[test]
    fn the_oldest_of_too_many_rows_expire() {
        let (mut hot, now) = (HotRows::default(), Instant::now());
        (0..MAX_ROWS as u128 + 10).for_each(|key| hot.put(row(key), now));
        hot.expire(now);
        assert_eq!(hot.rows.len(), MAX_ROWS);
        assert!(hot.get(EventKey(9)).is_none() && hot.get(EventKey(10)).is_some());
    }
}
