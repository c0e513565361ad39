//! Sessions that nobody started: events that name one create it for their reporter (design.md, "Stores"), because
//! real emitters never call start.
//!
//! Must not stand in the way of an event: the log holds it whether PostgreSQL answers or not. What could not be
//! written waits here, bounded, and is written when PostgreSQL is back.

use super::store;
use lru::LruCache;
use schemas::ids::{OrgId, SessionId};
use schemas::session::PrivacyLevel;
use sqlx::PgPool;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// A session and the privacy level its envelope declared.
pub(crate) type Sighting = (OrgId, SessionId, Option<PrivacyLevel>);

/// Sessions remembered as written, so that only the first event of each costs a write.
const REMEMBERED: usize = 100_000;
/// Sightings that may wait; beyond, they are dropped with a warning and come again with the next event.
const MAX_WAITING: usize = 100_000;
/// Most sightings of one statement.
const MAX_AT_ONCE: usize = 1_000;
/// What a request waits for its sightings before it goes on without.
const PATIENCE: Duration = Duration::from_millis(250);
/// Pause after PostgreSQL did not take a statement.
const BACK_OFF: Duration = Duration::from_secs(1);

type Waiting = (Vec<Sighting>, oneshot::Sender<()>);

/// Handle on the writer of sightings; many requests share one statement.
#[derive(Clone)]
pub(crate) struct Sightings {
    written: Arc<Mutex<LruCache<Sighting, ()>>>,
    queue: mpsc::Sender<Waiting>,
}

impl Sightings {
    /// Starts the writer; it ends when the last handle is gone.
    pub(crate) fn start(pool: PgPool) -> Self {
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let capacity = NonZeroUsize::new(REMEMBERED).expect("the constant is not zero");
        let written = Arc::new(Mutex::new(LruCache::new(capacity)));
        tokio::spawn(write_all(pool, waiting, Arc::clone(&written)));
        Self { written, queue }
    }

    /// Has the sessions written; waits a moment for it, so that the next call of the reporter finds them.
    pub(crate) async fn note(&self, mut seen: Vec<Sighting>) {
        seen.sort_unstable();
        seen.dedup();
        {
            let mut written = self.written.lock().expect("no holder of the lock panics");
            seen.retain(|sighting| written.get(sighting).is_none());
        }
        if seen.is_empty() {
            return;
        }
        let (done, is_done) = oneshot::channel();
        if self.queue.try_send((seen, done)).is_err() {
            tracing::warn!("too many sessions wait for PostgreSQL; the next event of each brings it again");
            return;
        }
        let _ = tokio::time::timeout(PATIENCE, is_done).await;
    }
}

async fn write_all(pool: PgPool, mut waiting: mpsc::Receiver<Waiting>, written: Arc<Mutex<LruCache<Sighting, ()>>>) {
    while let Some(first) = waiting.recv().await {
        let mut group = vec![first];
        while group.iter().map(|(seen, _)| seen.len()).sum::<usize>() < MAX_AT_ONCE
            && let Ok(next) = waiting.try_recv()
        {
            group.push(next);
        }
        let seen: Vec<Sighting> = group.iter().flat_map(|(seen, _)| seen.clone()).collect();
        while let Err(error) = store::add_seen(&pool, &seen).await {
            tracing::warn!(sessions = seen.len(), "sessions are not written yet: {error}");
            tokio::time::sleep(BACK_OFF).await;
        }
        let mut remembered = written.lock().expect("no holder of the lock panics");
        for sighting in seen {
            remembered.put(sighting, ());
        }
        drop(remembered);
        for (_, done) in group {
            let _ = done.send(());
        }
    }
}
