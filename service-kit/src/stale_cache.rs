//! A lookup cache that serves stale results while the store is unavailable.
//!
//! Use it only for writes: reads and identity-api must apply revocations immediately. During an outage, a key that was never looked up is
//! unavailable, not rejected. Unsuccessful lookups don't evict successful ones (`a11_unknown_keys_do_not_evict_known_ones`).

use crate::clock::Clock;
use crate::http::ApiError;
use crate::lru::lru;
use crate::metric_definitions::common as measures;
use chrono::{DateTime, TimeDelta, Utc};
use moka::sync::Cache;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Time for which a result is used without a new lookup. Together with the lookup timeout, a revocation reaches every process within a
/// second.
const FRESH: TimeDelta = TimeDelta::milliseconds(800);
/// Time for which a stale result may be used: a minute of outage, plus the time by which the last lookup may predate the outage.
const MAX_STALENESS: TimeDelta = TimeDelta::seconds(62);
/// Pause between lookups while the store is unavailable, so that requests don't queue behind it.
const ASK_AGAIN: TimeDelta = TimeDelta::seconds(1);
const PATIENCE: Duration = Duration::from_millis(500);
const MAX_ENTRIES: usize = 20_000;
/// Maximum number of entries without a result: lookups in progress, and nonexistent keys.
const MAX_UNANSWERED: usize = 2_000;

/// Results by key. Concurrent lookups of a key share one query.
pub struct StaleCache<K, V> {
    clock: Clock,
    entries: Cache<K, Arc<Entry<V>>>,
    pending: Cache<K, Arc<Entry<V>>>,
}

struct Entry<V> {
    state: Mutex<State<V>>,
    asking: tokio::sync::Mutex<()>,
}

enum State<V> {
    /// No lookups until `until`, so requests that waited for a failed lookup fail too.
    Unknown { until: Option<DateTime<Utc>> },
    Known {
        /// `None` if the key doesn't exist.
        value: Option<V>,
        /// When the lookup of `value` started.
        asked_at: DateTime<Utc>,
        ask_at: DateTime<Utc>,
    },
}

impl<K, V> StaleCache<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub fn new(clock: Clock) -> Self {
        Self { clock, entries: lru(MAX_ENTRIES).build(), pending: lru(MAX_UNANSWERED).build() }
    }

    /// Returns the value of `key`. Calls `ask` unless a fresh result is cached. `None` if the key doesn't exist.
    pub async fn find<Fut>(&self, key: &K, ask: impl FnOnce() -> Fut) -> Result<Option<V>, ApiError>
    where
        Fut: Future<Output = Result<Option<V>, sqlx::Error>>,
    {
        let entry = self.entry(key);
        if let Some(answer) = entry.cached_result(self.clock.now()) {
            return answer;
        }
        let _asking = entry.asking.lock().await;
        let asked_at = self.clock.now();
        if let Some(answer) = entry.cached_result(asked_at) {
            return answer;
        }
        let failure = match tokio::time::timeout(PATIENCE, ask()).await {
            Ok(Ok(value)) => {
                *entry.state() = State::Known { value: value.clone(), asked_at, ask_at: asked_at + FRESH };
                self.keep(key, &entry, value.is_some());
                return Ok(value);
            }
            Ok(Err(error)) => ApiError::from(error),
            Err(_) => ApiError::unavailable(anyhow::anyhow!("the lookup timed out")),
        };
        entry.stale(self.clock.now()).ok_or(failure)
    }

    fn entry(&self, key: &K) -> Arc<Entry<V>> {
        let fresh = || {
            let state = Mutex::new(State::Unknown { until: None });
            Arc::new(Entry { state, asking: tokio::sync::Mutex::default() })
        };
        self.entries.get(key).unwrap_or_else(|| self.pending.get_with(key.clone(), fresh))
    }

    fn keep(&self, key: &K, entry: &Arc<Entry<V>>, is_answered: bool) {
        let (to, other) = if is_answered { (&self.entries, &self.pending) } else { (&self.pending, &self.entries) };
        other.invalidate(key);
        to.insert(key.clone(), Arc::clone(entry));
    }
}

impl<V: Clone> Entry<V> {
    fn state(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().expect("no holder of the lock panics")
    }

    /// Returns the result without a lookup, or `None` if a lookup is needed.
    fn cached_result(&self, now: DateTime<Utc>) -> Option<Result<Option<V>, ApiError>> {
        match &*self.state() {
            // If the clock was set back, the result seems to be from the future, so look it up again.
            State::Known { value, asked_at, ask_at } => (now < *ask_at && now >= *asked_at).then(|| Ok(value.clone())),
            State::Unknown { until: Some(until) } if now < *until => {
                Some(Err(ApiError::unavailable(anyhow::anyhow!("the store did not respond to a recent lookup"))))
            }
            State::Unknown { .. } => None,
        }
    }

    /// Returns the stale result if it is young enough, and postpones the next lookup.
    fn stale(&self, now: DateTime<Utc>) -> Option<Option<V>> {
        let mut state = self.state();
        match &mut *state {
            State::Known { value, asked_at, ask_at } if now - *asked_at < MAX_STALENESS => {
                *ask_at = (now + ASK_AGAIN).min(*asked_at + MAX_STALENESS);
                measures::stale_lookup();
                Some(value.clone())
            }
            _ => {
                *state = State::Unknown { until: Some(now + ASK_AGAIN) };
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn clock() -> Clock {
        Clock::manual(DateTime::from_timestamp(1_790_000_000, 0).unwrap())
    }

    fn away<V>() -> Result<V, sqlx::Error> {
        Err(sqlx::Error::PoolTimedOut)
    }

    async fn ask<V: Clone + Send + Sync + 'static>(
        known: &StaleCache<u32, V>,
        key: u32,
        answer: Result<Option<V>, sqlx::Error>,
    ) -> Result<Option<V>, ApiError> {
        known.find(&key, || async { answer }).await
    }

    #[tokio::test]
    async fn changes_are_visible_within_a_second() {
        let clock = clock();
        let known = StaleCache::new(clock.clone());
        assert_eq!(ask(&known, 1, Ok(Some(true))).await.unwrap(), Some(true));
        assert_eq!(ask(&known, 1, Ok(None)).await.unwrap(), Some(true), "cached for a moment");
        clock.advance(TimeDelta::milliseconds(999));
        assert_eq!(ask(&known, 1, Ok(None)).await.unwrap(), None);
        clock.advance(TimeDelta::milliseconds(999));
        assert_eq!(ask(&known, 1, Ok(Some(false))).await.unwrap(), Some(false), "a key that exists again is found");
    }

    #[tokio::test]
    async fn serves_stale_results_for_a_minute() {
        let clock = clock();
        let known = StaleCache::new(clock.clone());
        ask(&known, 1, Ok(Some("caller"))).await.unwrap();
        for _ in 0..61 {
            clock.advance(TimeDelta::seconds(1));
            assert_eq!(ask(&known, 1, away()).await.unwrap(), Some("caller"));
        }
        clock.advance(TimeDelta::seconds(1));
        assert!(ask(&known, 1, away()).await.is_err());
    }

    #[tokio::test]
    async fn a11_unknown_keys_do_not_evict_known_ones() {
        let clock = clock();
        let known = StaleCache::new(clock.clone());
        for key in 0..10 {
            assert!(ask(&known, key, Ok(Some(key))).await.unwrap().is_some());
        }
        for key in 10..10 + 2 * u32::try_from(MAX_ENTRIES).unwrap() {
            assert!(ask(&known, key, Ok(None)).await.unwrap().is_none());
        }
        known.pending.run_pending_tasks();
        assert!(known.pending.entry_count() <= MAX_UNANSWERED as u64);
        clock.advance(TimeDelta::seconds(30));
        for key in 0..10 {
            assert_eq!(ask(&known, key, away()).await.unwrap(), Some(key), "while the store is away");
        }
    }

    #[tokio::test]
    async fn uncached_keys_are_unavailable_not_rejected() {
        let known: StaleCache<u32, ()> = StaleCache::new(clock());
        let refused = ask(&known, 1, away()).await.unwrap_err();
        assert_eq!(refused.code(), schemas::problem::Code::Unavailable);
    }

    #[tokio::test]
    async fn waiters_do_not_repeat_a_failed_lookup() {
        let (clock, asked) = (clock(), AtomicU32::new(0));
        let known: StaleCache<u32, ()> = StaleCache::new(clock.clone());
        let ask = || async {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            away()
        };
        let (a, b, c) = tokio::join!(known.find(&1, ask), known.find(&1, ask), known.find(&1, ask));
        assert!(a.is_err() && b.is_err() && c.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        clock.advance(TimeDelta::seconds(1));
        assert!(known.find(&1, || async { Ok(Some(())) }).await.is_ok(), "looked up again after the pause");
    }

    #[tokio::test]
    async fn concurrent_lookups_share_one_query() {
        let (known, asked) = (StaleCache::new(clock()), AtomicU32::new(0));
        let ask = || async {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            Ok(Some(7))
        };
        let (a, b, c) = tokio::join!(known.find(&1, ask), known.find(&1, ask), known.find(&1, ask));
        assert_eq!((a.unwrap(), b.unwrap(), c.unwrap()), (Some(7), Some(7), Some(7)));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
