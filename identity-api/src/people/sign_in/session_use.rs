//! Records when sessions were last used, at most once per session, process and interval.

use crate::State;
use crate::people::user_sessions;
use chrono::{DateTime, TimeDelta, Utc};
use lru::LruCache;
use schemas::secrets::SecretHash;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

const INTERVAL: TimeDelta = TimeDelta::minutes(5);
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).expect("is not 0");

pub(crate) struct RecentUses(Mutex<LruCache<SecretHash, DateTime<Utc>>>);

impl Default for RecentUses {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl RecentUses {
    /// Records a session's use, unless that was done recently. If it fails, the next request tries again.
    pub(crate) async fn note(&self, state: &State, session: SecretHash) {
        let now = state.now();
        if !self.is_due(session, now) {
            return;
        }
        if let Err(error) = user_sessions::touch(&state.pool, &session, now, state.sign_in.lifetimes).await {
            tracing::debug!("failed to record a session's use: {error}");
            self.0.lock().unwrap_or_else(PoisonError::into_inner).pop(&session);
        }
    }

    fn is_due(&self, session: SecretHash, now: DateTime<Utc>) -> bool {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = noted.get(&session).is_none_or(|last| now - *last >= INTERVAL);
        if is_due {
            noted.put(session, now);
        }
        is_due
    }
}
