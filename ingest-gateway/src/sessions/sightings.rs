//! Sessions that nobody started: events that name one create it for their reporter (design.md, "Stores"), because
//! real emitters never call start.
//!
//! Must not stand in the way of an event: the log holds it whether PostgreSQL answers or not. What could not be
//! written waits here, bounded, and is written when PostgreSQL is back.

use super::{SessionMemory, Told, store};
use lru::LruCache;
use schemas::ids::{OrgId, SessionId};
use schemas::session::PrivacyLevel;
use service_kit::clock::Clock;
use sqlx::PgPool;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};

/// A session that events named, and what their envelope said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sighting {
    pub(crate) org: OrgId,
    pub(crate) session: SessionId,
    /// The privacy level.
    pub(crate) level: Option<PrivacyLevel>,
    /// Everything else.
    pub(crate) told: Told,
}

/// What is remembered of a sighting, however long its texts are.
type Seen = (OrgId, SessionId, Option<PrivacyLevel>, Option<[u8; 16]>);

impl Sighting {
    fn short(&self) -> Seen {
        (self.org, self.session, self.level, self.told.fingerprint())
    }
}

/// Sessions remembered as written, so that only the first event of each costs a write.
const REMEMBERED: usize = 100_000;
/// Sightings that may wait; beyond, they are dropped with a warning and come again with the next event.
const MAX_WAITING: usize = 100_000;
/// Most sightings of one statement.
const MAX_AT_ONCE: usize = 1_000;
/// What a request waits for its sightings before it goes on without.
const PATIENCE: Duration = Duration::from_millis(500);
/// Pause after PostgreSQL did not take a statement.
const BACK_OFF: Duration = Duration::from_secs(1);

/// How long PostgreSQL counts as away after it did not take a statement: nobody waits for it meanwhile.
const AWAY: Duration = Duration::from_secs(2);

type Waiting = (Vec<Sighting>, oneshot::Sender<()>);

/// Handle on the writer of sightings; many requests share one statement.
#[derive(Clone)]
pub(crate) struct Sightings {
    written: Arc<Mutex<LruCache<Seen, ()>>>,
    away_until: Arc<Mutex<Option<Instant>>>,
    queue: mpsc::Sender<Waiting>,
}

struct Writer {
    pool: PgPool,
    clock: Clock,
    memory: Arc<SessionMemory>,
    written: Arc<Mutex<LruCache<Seen, ()>>>,
    away_until: Arc<Mutex<Option<Instant>>>,
}

impl Sightings {
    /// Starts the writer, which tells `memory` what it learns; it ends when the last handle is gone.
    pub(crate) fn start(pool: PgPool, memory: Arc<SessionMemory>, clock: Clock) -> Self {
        let (queue, waiting) = mpsc::channel(MAX_WAITING);
        let capacity = NonZeroUsize::new(REMEMBERED).expect("the constant is not zero");
        let written = Arc::new(Mutex::new(LruCache::new(capacity)));
        let away_until = Arc::default();
        let writer = Writer { pool, clock, memory, written: Arc::clone(&written), away_until: Arc::clone(&away_until) };
        tokio::spawn(writer.write_all(waiting));
        Self { written, away_until, queue }
    }

    /// Has the sessions written; waits a moment for it, so that the next call of the reporter finds them. False when
    /// PostgreSQL did not answer in time.
    pub(crate) async fn note(&self, mut seen: Vec<Sighting>) -> bool {
        {
            let mut written = self.written.lock().expect("no holder of the lock panics");
            seen.retain(|sighting| written.get(&sighting.short()).is_none());
        }
        if seen.is_empty() {
            return true;
        }
        let (done, is_done) = oneshot::channel();
        if self.queue.try_send((seen, done)).is_err() {
            tracing::warn!("too many sessions wait for PostgreSQL; the next event of each brings it again");
            return false;
        }
        let is_away = self.away_until.lock().expect("no holder of the lock panics").is_some_and(|until| Instant::now() < until);
        !is_away && matches!(tokio::time::timeout(PATIENCE, is_done).await, Ok(Ok(())))
    }
}

impl Writer {
    async fn write_all(self, mut waiting: mpsc::Receiver<Waiting>) {
        while let Some(first) = waiting.recv().await {
            let mut group = vec![first];
            while group.iter().map(|(seen, _)| seen.len()).sum::<usize>() < MAX_AT_ONCE
                && let Ok(next) = waiting.try_recv()
            {
                group.push(next);
            }
            self.write(group.iter().flat_map(|(seen, _)| seen.clone()).collect()).await;
            for (_, done) in group {
                let _ = done.send(());
            }
        }
    }

    async fn write(&self, seen: Vec<Sighting>) {
        let asked_at = self.clock.now();
        let known = loop {
            match store::add_seen(&self.pool, &seen).await {
                Ok(known) => break known,
                Err(error) => tracing::warn!(sessions = seen.len(), "sessions are not written yet: {error}"),
            }
            *self.away_until.lock().expect("no holder of the lock panics") = Some(Instant::now() + AWAY);
            tokio::time::sleep(BACK_OFF).await;
        };
        self.memory.learn(seen.iter().map(|seen| (seen.org, seen.session)), &known, asked_at);
        let mut remembered = self.written.lock().expect("no holder of the lock panics");
        for sighting in seen {
            remembered.put(sighting.short(), ());
        }
    }
}
