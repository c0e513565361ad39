//! Records key uses in the background, at most once a minute per key.
//!
//! While PostgreSQL is unavailable, uses wait in a bounded queue in memory.

use crate::lru::lru;
use moka::sync::Cache;
use schemas::ids::ApiKeyId;
use sqlx::PgPool;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

const PAUSE: Duration = Duration::from_secs(1);
/// Minimum interval between two writes for a key.
const ONCE_IN: Duration = Duration::from_secs(60);
/// Maximum number of queued keys and of remembered keys. Further uses are dropped; a later use is recorded.
const MAX_KEYS: usize = 20_000;

/// Handle for one service; cheap to clone.
#[derive(Clone)]
pub struct KeyUses(Arc<Mutex<Uses>>);

struct Uses {
    waiting: HashMap<ApiKeyId, Instant>,
    told: Cache<ApiKeyId, Instant>,
}

impl KeyUses {
    /// Writes uses with `statement`, whose parameters are the keys (`$1`, uuid[]) and the seconds since each use (`$2`, float8[]). The task
    /// stops when the last handle is dropped.
    pub fn start(pool: PgPool, statement: &'static str) -> Self {
        let uses = Self::silent();
        tokio::spawn(write_uses(Arc::downgrade(&uses.0), pool, statement));
        uses
    }

    fn silent() -> Self {
        Self(Arc::new(Mutex::new(Uses { waiting: HashMap::new(), told: lru(MAX_KEYS).build() })))
    }

    pub fn record(&self, key: ApiKeyId) {
        self.0.lock().expect("no holder of the lock panics").note(key, Instant::now());
    }
}

impl Uses {
    fn note(&mut self, key: ApiKeyId, now: Instant) {
        let is_told = self.told.get(&key).is_some_and(|told| now.duration_since(told) < ONCE_IN);
        if !is_told && (self.waiting.len() < MAX_KEYS || self.waiting.contains_key(&key)) {
            self.waiting.insert(key, now);
        }
    }

    /// Removes and returns the queued uses, sorted by key so that two processes can't deadlock.
    fn take(&mut self, now: Instant) -> Vec<(ApiKeyId, Instant)> {
        let mut taken: Vec<_> = self.waiting.drain().collect();
        taken.sort_unstable();
        for (key, _) in &taken {
            self.told.insert(*key, now);
        }
        taken
    }

    /// Queues uses again after a failed write, unless the key was used in the meantime.
    fn put_back(&mut self, taken: Vec<(ApiKeyId, Instant)>) {
        for (key, used) in taken {
            self.told.invalidate(&key);
            if self.waiting.len() < MAX_KEYS {
                self.waiting.entry(key).or_insert(used);
            }
        }
    }
}

async fn write_uses(uses: Weak<Mutex<Uses>>, pool: PgPool, statement: &'static str) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let Some(uses) = uses.upgrade() else { return };
        let now = Instant::now();
        let taken = uses.lock().expect("no holder of the lock panics").take(now);
        if taken.is_empty() {
            continue;
        }
        let keys: Vec<Uuid> = taken.iter().map(|(key, _)| key.0).collect();
        let ago: Vec<f64> = taken.iter().map(|(_, used)| now.duration_since(*used).as_secs_f64()).collect();
        match sqlx::query(statement).bind(keys).bind(ago).execute(&pool).await {
            Ok(_) => {}
            // PostgreSQL would reject a retry as well. The next use is recorded as usual.
            Err(error @ sqlx::Error::Database(_)) => tracing::warn!(keys = taken.len(), "failed to record key uses: {error}"),
            Err(error) => {
                tracing::debug!(keys = taken.len(), "failed to record key uses, retrying later: {error}");
                uses.lock().expect("no holder of the lock panics").put_back(taken);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: ApiKeyId = ApiKeyId(Uuid::from_u128(1));

    #[test]
    fn records_uses_once_a_minute_and_retries_failures() {
        let uses = KeyUses::silent();
        let mut uses = uses.0.lock().unwrap();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        uses.note(KEY, at(0));
        uses.note(KEY, at(1));
        let taken = uses.take(at(2));
        assert_eq!(taken, [(KEY, at(1))]);
        uses.note(KEY, at(61));
        assert!(uses.take(at(61)).is_empty(), "recorded less than a minute ago");
        uses.note(KEY, at(62));
        assert_eq!(uses.take(at(62)), [(KEY, at(62))]);
        uses.put_back(vec![(KEY, at(62))]);
        uses.note(KEY, at(63));
        assert_eq!(uses.take(at(64)), [(KEY, at(63))], "a later use replaces a waiting earlier one");
    }

    #[test]
    fn queue_is_bounded() {
        let uses = KeyUses::silent();
        let mut uses = uses.0.lock().unwrap();
        for key in 0..2 * MAX_KEYS as u128 {
            uses.note(ApiKeyId(Uuid::from_u128(key)), Instant::now());
        }
        assert_eq!(uses.take(Instant::now()).len(), MAX_KEYS);
    }
}
