//! Key sets of agents that sign their fetches, by URL (docs/api/signatures.md#signed-agents).
//!
//! They are fetched in the background, so no line waits for one. Gateways share the last good copies through PostgreSQL, and a failed
//! fetch never replaces one.

use axum::http::header;
use chrono::{DateTime, TimeDelta, Utc};
use lru::LruCache;
use service_kit::clock::Clock;
use service_kit::egress::Egress;
use service_kit::hourly_deletion;
use signatures::{Key, key_set};
use sqlx::PgPool;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

const MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";
const REFRESH_AFTER: TimeDelta = TimeDelta::hours(1);
const RETRY_AFTER: TimeDelta = TimeDelta::minutes(5);
const DEADLINE: Duration = Duration::from_secs(5);
const MAX_DOCUMENT_BYTES: usize = 16 * 1024;
/// Number of concurrent fetches. Visitors choose the URLs, so a slow server occupies one of them for at most the deadline.
const AT_ONCE: usize = 8;
const MAX_WAITING: usize = 100;
const MAX_COPIES: usize = 1_000;
/// Maximum URLs whose last attempt is remembered.
const MAX_ATTEMPTS: usize = 10_000;
/// Pause between lookups of other gateways' copies.
const SHARE_EVERY: Duration = Duration::from_secs(30);
const KEEP: TimeDelta = TimeDelta::days(30);

const SHARED: &str = "SELECT url, document, fetched_at FROM agent_key_sets WHERE fetched_at > $1 ORDER BY fetched_at LIMIT 1000";
const SHARE: &str = "INSERT INTO agent_key_sets (url, document, fetched_at) SELECT $1, $2, $3 \
     WHERE EXISTS (SELECT FROM agent_key_sets WHERE url = $1) OR (SELECT count(*) FROM agent_key_sets) < 1000 \
     ON CONFLICT (url) DO UPDATE SET document = excluded.document, fetched_at = excluded.fetched_at \
         WHERE agent_key_sets.fetched_at < excluded.fetched_at";
const DELETE: &str = "DELETE FROM agent_key_sets WHERE url = ANY(array( \
     SELECT url FROM agent_key_sets WHERE fetched_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))";

/// The last good copy of a key set.
#[derive(Clone)]
struct KeySetCopy {
    keys: Arc<[Key]>,
    fetched_at: DateTime<Utc>,
}

type Copies = Arc<Mutex<LruCache<String, KeySetCopy>>>;

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct KeySets {
    copies: Copies,
    attempts: Arc<Mutex<LruCache<String, DateTime<Utc>>>>,
    wanted: mpsc::Sender<Url>,
    clock: Clock,
    _tasks: Arc<[AbortOnDropHandle<()>]>,
}

impl KeySets {
    pub(super) fn start(egress: Egress, pool: PgPool, clock: Clock) -> Self {
        let (copies, (wanted, waiting)) = (Copies::new(Mutex::new(cache(MAX_COPIES))), mpsc::channel(MAX_WAITING));
        let fetching = fetch_wanted(waiting, egress, Arc::clone(&copies), pool.clone(), clock.clone());
        let sharing = copy_shared(Arc::clone(&copies), pool.clone());
        let old = clock.clone();
        let expiry = hourly_deletion::hourly("old key sets of agents", move || {
            let (pool, before) = (pool.clone(), old.now() - KEEP);
            async move { hourly_deletion::delete_in_batches(&pool, DELETE, before).await }
        });
        let tasks = [AbortOnDropHandle::new(tokio::spawn(fetching)), AbortOnDropHandle::new(tokio::spawn(sharing)), expiry];
        Self { copies, attempts: Arc::new(Mutex::new(cache(MAX_ATTEMPTS))), wanted, clock, _tasks: tasks.into() }
    }

    /// Returns the last good copy. Fetches the key set later if there is none, or if it is old.
    pub(super) fn find(&self, url: &Url) -> Option<Arc<[Key]>> {
        let (found, now) = (lock(&self.copies).get(url.as_str()).cloned(), self.clock.now());
        if found.as_ref().is_none_or(|copy| now - copy.fetched_at >= REFRESH_AFTER) {
            self.want(url, now);
        }
        found.map(|copy| copy.keys)
    }

    fn want(&self, url: &Url, now: DateTime<Utc>) {
        let mut attempts = lock(&self.attempts);
        let is_due = attempts.get(url.as_str()).is_none_or(|last| now - *last >= RETRY_AFTER);
        // A full queue drops it, and the next line tries again.
        if is_due && self.wanted.try_send(url.clone()).is_ok() {
            attempts.put(url.to_string(), now);
        }
    }
}

fn cache<V>(size: usize) -> LruCache<String, V> {
    LruCache::new(NonZeroUsize::new(size).expect("the constant is not zero"))
}

fn lock<T>(cache: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is a single step, so the cache is consistent even after a panic.
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores a copy unless there is a later one.
fn keep(copies: &Copies, url: String, document: &[u8], fetched_at: DateTime<Utc>) -> bool {
    let Ok(keys) = key_set(document) else { return false };
    let mut copies = lock(copies);
    if copies.peek(&url).is_none_or(|known| known.fetched_at < fetched_at) {
        copies.put(url, KeySetCopy { keys: keys.into(), fetched_at });
    }
    true
}

async fn fetch_wanted(mut waiting: mpsc::Receiver<Url>, egress: Egress, copies: Copies, pool: PgPool, clock: Clock) {
    let permits = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(url) = waiting.recv().await {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let (egress, copies, pool, clock) = (egress.clone(), Arc::clone(&copies), pool.clone(), clock.clone());
        tokio::spawn(async move {
            let (document, now) = (fetch(&egress, &url).await, clock.now());
            drop(permit);
            let Some(document) = document.filter(|document| keep(&copies, url.to_string(), document, now)) else { return };
            let shared = sqlx::query(SHARE).bind(url.as_str()).bind(document).bind(now).execute(&pool).await;
            if let Err(error) = shared {
                tracing::warn!("failed to share the key set of an agent with other gateways: {error}");
            }
        });
    }
}

/// Returns the document if the response is one: status 200, without redirects, and of the right media type.
async fn fetch(egress: &Egress, url: &Url) -> Option<Vec<u8>> {
    let response = egress.get(url, DEADLINE, MAX_DOCUMENT_BYTES).await.ok()?;
    let media_type = response.headers.get(header::CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
    let is_key_set = response.status == 200 && !response.is_truncated && media_type.eq_ignore_ascii_case(MEDIA_TYPE);
    is_key_set.then_some(response.body)
}

/// Copies the key sets that other gateways fetched.
async fn copy_shared(copies: Copies, pool: PgPool) {
    let mut since = DateTime::UNIX_EPOCH;
    loop {
        let found = sqlx::query_as(SHARED).bind(since).fetch_all(&pool).await.unwrap_or_default();
        let found: Vec<(String, Vec<u8>, DateTime<Utc>)> = found;
        for (url, document, fetched_at) in found {
            keep(&copies, url, &document, fetched_at);
            since = since.max(fetched_at);
        }
        tokio::time::sleep(SHARE_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &[u8] = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs"}]}"#;

    #[test]
    fn keeps_the_last_good_copy() {
        let (copies, now) = (Copies::new(Mutex::new(cache(2))), DateTime::UNIX_EPOCH);
        let count = |copies: &Copies| lock(copies).peek("a").map(|copy| copy.keys.len());
        assert!(keep(&copies, "a".to_owned(), SET, now));
        assert!(!keep(&copies, "a".to_owned(), b"<html>", now + REFRESH_AFTER));
        assert_eq!(count(&copies), Some(1));
        keep(&copies, "a".to_owned(), br#"{"keys":[]}"#, now - REFRESH_AFTER);
        assert_eq!(count(&copies), Some(1), "an older copy of another gateway");
        keep(&copies, "a".to_owned(), br#"{"keys":[]}"#, now + REFRESH_AFTER);
        assert_eq!(count(&copies), Some(0), "the agent withdrew its key");
    }
}
