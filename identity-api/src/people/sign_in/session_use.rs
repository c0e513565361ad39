//! When sessions were last used, written seldom: once in a while for each session and process, not with every request.

use crate::State;
use crate::people::user_sessions;
use chrono::{DateTime, TimeDelta, Utc};
use lru::LruCache;
use schemas::secrets::SecretHash;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

const INTERVAL: TimeDelta = TimeDelta::minutes(5);
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(10_000).expect("is not 0");

pub(crate) struct Seen(Mutex<LruCache<SecretHash, DateTime<Utc>>>);

impl Default for Seen {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(REMEMBERED)))
    }
}

impl Seen {
    /// Notes a session in use, if that was not done lately. A note that fails is written with the next request.
    pub(crate) async fn note(&self, state: &State, session: SecretHash) {
        let now = state.now();
        if !self.is_due(session, now) {
            return;
        }
        if let Err(error) = user_sessions::touch(&state.pool, &session, now, state.sign_in.lifetimes).await {
            tracing::debug!("the use of a session could not be noted: {error}");
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
