//! Current rows of recently written events. An event's second report nearly always arrives within minutes, and fetching a row costs
//! ClickHouse more than inserting one.

use lru::LruCache;
use schemas::event_key::EventKey;
use std::time::Duration;
use store::facts::{Facts, ReportFacts};
use store::row::{Entry, EventRow};
use tokio::time::Instant;

/// Time for which a row is cached after its last write.
const KEEP: Duration = Duration::from_secs(15 * 60);
/// Maximum cache size, as estimated by [`bytes_of`].
const MAX_BYTES: usize = 256 * 1024 * 1024;

/// Estimates a row's memory in bytes: usually a few hundred, but 300 KB with 32 long URLs.
pub(super) fn bytes_of(row: &EventRow<Facts>) -> usize {
    let strings = |facts: &ReportFacts| {
        let fetch = facts.fetch.as_ref().map_or(0, |fetch| fetch.bot.len() + fetch.operator.len() + fetch.purpose.len());
        facts.event_type.len() + facts.url.len() + facts.agent.len() + facts.link_site.len() + fetch
    };
    let entry = |entry: &Entry<Facts>| size_of::<Entry<Facts>>() + size_of::<ReportFacts>() + strings(&entry.facts);
    size_of::<EventRow<Facts>>() + row.reports.iter().map(entry).sum::<usize>()
}

pub(super) struct RowCache {
    /// Rows in the order of their last write.
    rows: LruCache<EventKey, (Instant, EventRow<Facts>)>,
    bytes: usize,
}

impl Default for RowCache {
    fn default() -> Self {
        Self { rows: LruCache::unbounded(), bytes: 0 }
    }
}

impl RowCache {
    pub(super) fn get(&self, key: EventKey) -> Option<&EventRow<Facts>> {
        self.rows.peek(&key).map(|(_, row)| row)
    }

    pub(super) fn put(&mut self, row: EventRow<Facts>, now: Instant) {
        self.remove(row.key);
        self.bytes += bytes_of(&row);
        self.rows.put(row.key, (now, row));
    }

    pub(super) fn remove(&mut self, key: EventKey) {
        if let Some((_, row)) = self.rows.pop(&key) {
            self.bytes -= bytes_of(&row);
        }
    }

    /// Removes rows that are too old, and the oldest ones if the cache is too large.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((key, (written, _))) = self.rows.peek_lru() {
            if now.duration_since(*written) < KEEP && self.bytes <= MAX_BYTES {
                return;
            }
            let key = *key;
            self.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::ids::OrgId;
    use schemas::signature::SignatureResult;
    use std::sync::Arc;
    use store::report::{Acceptance, Home, Observer};
    use uuid::Uuid;

    fn row(key: u128) -> EventRow<Facts> {
        EventRow { key: EventKey(key), site: None, home: Home(202_611), reports: Vec::new() }
    }

    #[test]
    fn evicts_rows_some_time_after_their_last_write() {
        let (mut hot, begin) = (RowCache::default(), Instant::now());
        hot.put(row(1), begin);
        hot.put(row(2), begin);
        hot.put(row(1), begin + KEEP / 2);
        hot.expire(begin + KEEP);
        assert!(hot.get(EventKey(1)).is_some() && hot.get(EventKey(2)).is_none());
        hot.expire(begin + KEEP / 2 + KEEP);
        assert!(hot.get(EventKey(1)).is_none());
    }

    #[test]
    fn evicts_the_oldest_rows_first() {
        let (mut hot, now) = (RowCache::default(), Instant::now());
        let large = |key| {
            let facts = ReportFacts {
                event_type: String::new(),
                url: "u".repeat(MAX_BYTES / 10),
                role: 0,
                platform: OrgId(Uuid::nil()),
                agent: String::new(),
                session: 0,
                link_site: String::new(),
                fetch: None,
                is_owners: false,
                signature: SignatureResult::None,
            };
            let accepted = Acceptance { at_us: 0, place: 0, identity: EventKey(key) };
            let observer = Observer { org: OrgId(Uuid::nil()), role: None, drain: None };
            let entry = Entry { accepted, observer, at_ms: 0, home: Home(202_611), facts: Arc::new(facts) };
            EventRow { reports: vec![entry], ..row(key) }
        };
        // A row that is written again counts once.
        (0..30).for_each(|n| hot.put(large(n / 2), now));
        hot.expire(now);
        assert_eq!(hot.rows.len(), 9);
        assert!(hot.get(EventKey(5)).is_none() && hot.get(EventKey(6)).is_some());
        (0..30).for_each(|key| hot.remove(EventKey(key)));
        assert_eq!(hot.bytes, 0);
    }
}
