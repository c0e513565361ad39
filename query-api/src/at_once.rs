//! How many reads of telemetry may be under way at a time: of one key, and of everybody (threat row R18). What one read
//! may cost is capped in `sql`; this keeps a hundred of them from costing a hundred times that.
//!
//! Must give every place back, however a read ends, and must count a streamed answer until its last item is out.

use crate::{State, metrics};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use clap::Args;
use schemas::ids::ApiKeyId;
use schemas::problem::Code;
use service_kit::auth::Reader;
use service_kit::http::ApiError;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How soon a caller may try again: most reads are over by then.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Settings of the reads.
#[derive(Args, Clone, Copy, Debug)]
pub struct ReadSettings {
    /// Reads of one key under way at a time; more are told to wait; 0: no limit
    #[arg(long, env = "TELEMETRY_READS_PER_KEY", default_value_t = Self::default().reads_per_key)]
    pub reads_per_key: usize,
    /// Reads of everybody under way at a time in this process; more are told to wait; 0: no limit
    #[arg(long, env = "TELEMETRY_READS_AT_ONCE", default_value_t = Self::default().reads_at_once)]
    pub reads_at_once: usize,
}

impl Default for ReadSettings {
    fn default() -> Self {
        Self { reads_per_key: 32, reads_at_once: 96 }
    }
}

/// The reads under way.
pub(crate) struct AtOnce {
    per_key: usize,
    in_all: usize,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    of_key: HashMap<ApiKeyId, usize>,
    in_all: usize,
}

/// A read under way, until it is dropped.
pub(crate) struct UnderWay {
    at_once: Arc<AtOnce>,
    key: ApiKeyId,
}

impl AtOnce {
    pub(crate) fn new(settings: &ReadSettings) -> Arc<Self> {
        let unlimited = |limit: usize| if limit == 0 { usize::MAX } else { limit };
        let (per_key, in_all) = (unlimited(settings.reads_per_key), unlimited(settings.reads_at_once));
        Arc::new(Self { per_key, in_all, running: Mutex::default() })
    }

    /// A place, or 429 when the key has all of its own, or 503 when there is none for anybody.
    pub(crate) fn begin(self: &Arc<Self>, key: ApiKeyId) -> Result<UnderWay, ApiError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = running.of_key.get(&key).copied().unwrap_or(0);
        if of_key >= self.per_key {
            metrics::refused(metrics::PER_KEY);
            let detail = "The API key has too many reads under way; wait for one of them, or as Retry-After says.";
            return Err(ApiError::new(Code::TooManyRequests, detail).retry_after(RETRY_AFTER));
        }
        if running.in_all >= self.in_all {
            metrics::refused(metrics::IN_ALL);
            return Err(ApiError::unavailable(anyhow::anyhow!("{} reads are under way", running.in_all)));
        }
        running.in_all += 1;
        metrics::under_way(running.in_all);
        running.of_key.insert(key, of_key + 1);
        Ok(UnderWay { at_once: Arc::clone(self), key })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut running = self.at_once.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.in_all -= 1;
        metrics::under_way(running.in_all);
        match running.of_key.get_mut(&self.key) {
            Some(of_key) if *of_key > 1 => *of_key -= 1,
            // Keys that do not read are not remembered.
            _ => drop(running.of_key.remove(&self.key)),
        }
    }
}

/// A caller who may read, with a place to do it.
pub(crate) struct Reading {
    pub(crate) reader: Reader,
    pub(crate) under_way: UnderWay,
}

impl FromRequestParts<Arc<State>> for Reading {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<State>) -> Result<Self, ApiError> {
        let reader = Reader::from_request_parts(parts, state).await?;
        let under_way = state.at_once.begin(reader.0.key_id)?;
        Ok(Self { reader, under_way })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn key(number: u128) -> ApiKeyId {
        ApiKeyId(Uuid::from_u128(number))
    }

    #[test]
    fn a_key_has_its_places_and_gets_them_back_and_nobody_has_more_than_there_are() {
        let at_once = AtOnce::new(&ReadSettings { reads_per_key: 2, reads_at_once: 3 });
        let refused = |number| at_once.begin(key(number)).err().map(|refusal| refusal.code());
        let first = [at_once.begin(key(1)).unwrap(), at_once.begin(key(1)).unwrap()];
        assert_eq!(refused(1), Some(Code::TooManyRequests));
        let second = at_once.begin(key(2)).unwrap();
        assert_eq!(refused(3), Some(Code::Unavailable));
        drop(first);
        assert_eq!((refused(1), refused(3)), (None, None), "what was given back, and what was dropped at once");
        drop(second);
        let running = at_once.running.lock().unwrap();
        assert_eq!((running.in_all, running.of_key.len()), (0, 0), "nothing is remembered of who does not read");
    }

    #[test]
    fn nought_is_no_limit() {
        let at_once = AtOnce::new(&ReadSettings { reads_per_key: 0, reads_at_once: 0 });
        let all: Vec<_> = (0..10_000).map_while(|_| at_once.begin(key(1)).ok()).collect();
        assert_eq!(all.len(), 10_000);
    }
}
