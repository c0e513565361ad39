//! Look-ups that are kept for a moment, and longer while their store is away.
//!
//! Must not be used where a revocation has to count at once (reads, identity): only writes may go on for a while
//! with what was known, and what was never known is unavailable then, not refused. Must not let questions that have no answer
//! take the place of what is known: that is what writes go on with.

use crate::clock::Clock;
use crate::http::ApiError;
use crate::measures::common as measures;
use chrono::{DateTime, TimeDelta, Utc};
use lru::LruCache;
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long an answer is taken for true without asking again: with the time to ask, a revocation reaches every
/// process within a second.
const FRESH: TimeDelta = TimeDelta::milliseconds(800);
/// How long an answer may be used while the store is away: a minute of the outage, and the moment by which the last
/// answer is older than the outage.
const FAIL_STATIC: TimeDelta = TimeDelta::seconds(62);
/// Pause between questions while the store is away, so that requests do not queue behind it.
const ASK_AGAIN: TimeDelta = TimeDelta::seconds(1);
/// What one question may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// Answers kept at a time.
const MAX_ENTRIES: usize = 20_000;
/// Questions without an answer kept at a time: those under way, and those whose answer was that there is nothing.
const MAX_UNANSWERED: usize = 2_000;

/// Answers by question. Cheap to share; concurrent questions of one key are asked once.
pub struct StaleCache<K, V> {
    clock: Clock,
    entries: Entries<K, V>,
    unanswered: Entries<K, V>,
}

type Entries<K, V> = Mutex<LruCache<K, Arc<Entry<Option<V>>>>>;

struct Entry<V> {
    answer: Mutex<Option<CachedAnswer<V>>>,
    /// Until then it is known that the store does not answer: who waited behind a failed question does not ask too.
    failing_until: Mutex<Option<DateTime<Utc>>>,
    /// Held by whoever asks.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct CachedAnswer<V> {
    value: V,
    /// When the question that brought `value` was asked.
    asked_at: DateTime<Utc>,
    /// Not to be asked before.
    ask_at: DateTime<Utc>,
}

impl<K: Hash + Eq + Clone, V: Clone> StaleCache<K, V> {
    /// Nothing known yet.
    pub fn new(clock: Clock) -> Self {
        let room = |entries| Mutex::new(LruCache::new(NonZeroUsize::new(entries).expect("the constants are not zero")));
        Self { clock, entries: room(MAX_ENTRIES), unanswered: room(MAX_UNANSWERED) }
    }

    /// The answer for `key`, asked with `ask` when it is not known well enough; none when there is nothing of that key.
    pub async fn find<Fut>(&self, key: &K, ask: impl FnOnce() -> Fut) -> Result<Option<V>, ApiError>
    where
        Fut: Future<Output = Result<Option<V>, sqlx::Error>>,
    {
        let entry = self.entry(key);
        if let Some(value) = entry.usable(self.clock.now()) {
            return Ok(value);
        }
        let _asking = entry.asking.lock().await;
        let asked_at = self.clock.now();
        if let Some(value) = entry.usable(asked_at) {
            return Ok(value);
        }
        if entry.is_failing(asked_at) {
            return Err(ApiError::unavailable(anyhow::anyhow!("the store did not answer a moment ago")));
        }
        match tokio::time::timeout(PATIENCE, ask()).await {
            Ok(Ok(value)) => {
                entry.set(CachedAnswer { value: value.clone(), asked_at, ask_at: asked_at + FRESH });
                self.keep(key, &entry, value.is_some());
                Ok(value)
            }
            Ok(Err(error)) => entry.stale(self.clock.now()).ok_or_else(|| ApiError::from(error)),
            Err(_) => {
                entry.stale(self.clock.now()).ok_or_else(|| ApiError::unavailable(anyhow::anyhow!("a look-up took too long")))
            }
        }
    }

    fn entry(&self, key: &K) -> Arc<Entry<Option<V>>> {
        if let Some(entry) = self.entries.lock().expect("no holder of the lock panics").get(key) {
            return Arc::clone(entry);
        }
        let mut unanswered = self.unanswered.lock().expect("no holder of the lock panics");
        let fresh =
            || Arc::new(Entry { answer: Mutex::new(None), failing_until: Mutex::new(None), asking: tokio::sync::Mutex::new(()) });
        Arc::clone(unanswered.get_or_insert(key.clone(), fresh))
    }

    /// Puts an entry where its answer belongs.
    fn keep(&self, key: &K, entry: &Arc<Entry<Option<V>>>, is_answered: bool) {
        let (to, other) = if is_answered { (&self.entries, &self.unanswered) } else { (&self.unanswered, &self.entries) };
        other.lock().expect("no holder of the lock panics").pop(key);
        to.lock().expect("no holder of the lock panics").put(key.clone(), Arc::clone(entry));
    }
}

impl<V: Clone> Entry<V> {
    fn usable(&self, now: DateTime<Utc>) -> Option<V> {
        let answer = self.answer.lock().expect("no holder of the lock panics");
        // A clock that was set back makes an answer too young to be true.
        answer.as_ref().filter(|known| now < known.ask_at && now >= known.asked_at).map(|known| known.value.clone())
    }

    fn is_failing(&self, now: DateTime<Utc>) -> bool {
        self.failing_until.lock().expect("no holder of the lock panics").is_some_and(|until| now < until)
    }

    fn set(&self, answer: CachedAnswer<V>) {
        *self.answer.lock().expect("no holder of the lock panics") = Some(answer);
    }

    /// The old answer, while it is young enough to go on with; it is not asked again for a moment.
    fn stale(&self, now: DateTime<Utc>) -> Option<V> {
        let mut answer = self.answer.lock().expect("no holder of the lock panics");
        let Some(known) = answer.as_mut().filter(|known| now - known.asked_at < FAIL_STATIC) else {
            *self.failing_until.lock().expect("no holder of the lock panics") = Some(now + ASK_AGAIN);
            return None;
        };
        known.ask_at = (now + ASK_AGAIN).min(known.asked_at + FAIL_STATIC);
        measures::stale();
        Some(known.value.clone())
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

    async fn ask<V: Clone>(
        known: &StaleCache<u32, V>,
        key: u32,
        answer: Result<Option<V>, sqlx::Error>,
    ) -> Result<Option<V>, ApiError> {
        known.find(&key, || async { answer }).await
    }

    #[tokio::test]
    async fn a_change_is_seen_within_a_second() {
        let clock = clock();
        let known = StaleCache::new(clock.clone());
        assert_eq!(ask(&known, 1, Ok(Some(true))).await.unwrap(), Some(true));
        assert_eq!(ask(&known, 1, Ok(None)).await.unwrap(), Some(true), "kept for a moment");
        clock.advance(TimeDelta::milliseconds(999));
        assert_eq!(ask(&known, 1, Ok(None)).await.unwrap(), None);
        clock.advance(TimeDelta::milliseconds(999));
        assert_eq!(ask(&known, 1, Ok(Some(false))).await.unwrap(), Some(false), "and it is made again");
    }

    #[tokio::test]
    async fn what_is_known_outlives_the_store_for_a_minute_and_no_longer() {
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
    async fn a11_unknown_keys_do_not_take_the_place_of_known_ones() {
        let clock = clock();
        let known = StaleCache::new(clock.clone());
        for key in 0..10 {
            assert!(ask(&known, key, Ok(Some(key))).await.unwrap().is_some());
        }
        for key in 10..10 + 2 * u32::try_from(MAX_ENTRIES).unwrap() {
            assert!(ask(&known, key, Ok(None)).await.unwrap().is_none());
        }
        assert_eq!(known.unanswered.lock().unwrap().len(), MAX_UNANSWERED);
        clock.advance(TimeDelta::seconds(30));
        for key in 0..10 {
            assert_eq!(ask(&known, key, away()).await.unwrap(), Some(key), "while the store is away");
        }
    }

    #[tokio::test]
    async fn what_was_never_known_is_unavailable_not_refused() {
        let known: StaleCache<u32, ()> = StaleCache::new(clock());
        let refused = ask(&known, 1, away()).await.unwrap_err();
        assert_eq!(refused.code(), schemas::problem::Code::Unavailable);
    }

    #[tokio::test]
    async fn who_waited_behind_a_failed_question_does_not_ask_too() {
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
        assert!(known.find(&1, || async { Ok(Some(())) }).await.is_ok(), "asked again after a moment");
    }

    #[tokio::test]
    async fn many_who_ask_at_once_ask_once() {
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
