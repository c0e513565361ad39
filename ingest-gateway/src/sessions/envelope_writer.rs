//! Sessions that nobody started: events that name one create it for their reporter (docs/api/sessions.md#sessions-nobody-started), because
//! real emitters never call start.
//!
//! Must not stand in the way of an event: the log holds it whether PostgreSQL answers or not. What could not be
//! written waits here and in a file (`envelope_spill`), and is written when PostgreSQL is back, by the next process if need be.

use super::envelope::{EnvelopeReport, Seen, Session, SessionState};
use super::envelope_spill::EnvelopeSpill;
use super::{SessionMemory, store};
use crate::metrics;
use anyhow::Context as _;
use chrono::{DateTime, Utc};
use lru::LruCache;
use service_kit::clock::Clock;
use sqlx::PgPool;
use std::collections::{HashMap, HashSet};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

/// Sessions remembered as written, so that only the first event of each costs a write.
const REMEMBERED: usize = 100_000;
/// Requests that may wait, and reports that may be left for later; beyond, they are dropped with a warning and come again
/// with the next event.
const MAX_WAITING: usize = 100_000;
/// Most reports of one statement.
const MAX_AT_ONCE: usize = 1_000;
/// What a statement may take while requests wait for it, and when none does.
const ATTEMPT: Duration = Duration::from_millis(500);
const LATER_ATTEMPT: Duration = Duration::from_secs(5);
/// How long PostgreSQL counts as away after it did not take a statement: nobody waits for it meanwhile.
const AWAY: Duration = Duration::from_secs(2);
/// Between two attempts to write what was left.
const BACK_OFF: Duration = Duration::from_secs(1);

/// What a request has seen, and where it hears whether that is written.
type Waiting = (Vec<EnvelopeReport>, oneshot::Sender<bool>);

/// Handle on the writer of reports; many requests share one statement.
#[derive(Clone)]
pub(crate) struct EnvelopeWriter {
    written: Arc<Mutex<LruCache<Seen, ()>>>,
    queue: mpsc::Sender<Waiting>,
}

struct Writer {
    pool: PgPool,
    clock: Clock,
    memory: Arc<SessionMemory>,
    written: Arc<Mutex<LruCache<Seen, ()>>>,
    away_until: Option<Instant>,
    /// What PostgreSQL has not taken, oldest first.
    left: Vec<EnvelopeReport>,
    /// The same, in short: what a busy session says again and again waits once.
    waiting: HashSet<Seen>,
    kept: Option<EnvelopeSpill>,
    attempt: Option<AbortOnDropHandle<Attempted>>,
}

/// What is known of the oldest of what was left, once PostgreSQL has taken it, and when it was asked.
type Attempted = Option<(HashMap<Session, SessionState>, Vec<EnvelopeReport>, DateTime<Utc>)>;

/// What is known of sessions, once PostgreSQL has taken what was seen of them; nothing when it has not.
async fn written(
    pool: &PgPool,
    seen: &[EnvelopeReport],
    now: DateTime<Utc>,
    patience: Duration,
) -> Option<HashMap<Session, SessionState>> {
    let why = match tokio::time::timeout(patience, store::add_seen(pool, seen, now)).await {
        Ok(Ok(known)) => return Some(known),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer".to_owned(),
    };
    tracing::warn!(sessions = seen.len(), "sessions are not written yet: {why}");
    None
}

fn dropped(sessions: usize) {
    metrics::sessions_dropped(sessions);
    tracing::warn!("too many sessions wait for PostgreSQL; the next event of each brings it again");
}

impl EnvelopeWriter {
    /// Starts the writer, which tells `memory` what it learns; it ends when the last handle is gone. What PostgreSQL does
    /// not take is kept in `folder`, which is this process's alone.
    pub(crate) fn start(pool: PgPool, memory: Arc<SessionMemory>, clock: Clock, folder: Option<&Path>) -> anyhow::Result<Self> {
        let (kept, left) = match folder {
            None => (None, Vec::new()),
            Some(folder) => {
                let cannot = || format!("TELEMETRY_SPILL_DIR={}: sessions cannot be kept there", folder.display());
                let (kept, left) = EnvelopeSpill::open(folder).with_context(cannot)?;
                (Some(kept), left)
            }
        };
        let (queue, incoming) = mpsc::channel(MAX_WAITING);
        let capacity = NonZeroUsize::new(REMEMBERED).expect("the constant is not zero");
        let written = Arc::new(Mutex::new(LruCache::new(capacity)));
        metrics::sessions_waiting(left.len());
        let writer = Writer {
            pool,
            clock,
            memory,
            written: Arc::clone(&written),
            away_until: None,
            waiting: left.iter().map(EnvelopeReport::short).collect(),
            left,
            kept,
            attempt: None,
        };
        tokio::spawn(writer.run(incoming));
        Ok(Self { written, queue })
    }

    /// Has the sessions written, and waits for it, so that the next call of the reporter finds them. False when PostgreSQL
    /// did not take them in time: then they are kept, on disk before this answers, because the process may die after its 2xx.
    pub(crate) async fn note(&self, mut seen: Vec<EnvelopeReport>) -> bool {
        {
            let mut written = self.written.lock().expect("no holder of the lock panics");
            seen.retain(|report| written.get(&report.short()).is_none());
        }
        if seen.is_empty() {
            return true;
        }
        let (done, is_done) = oneshot::channel();
        let count = seen.len();
        if self.queue.try_send((seen, done)).is_err() {
            dropped(count);
            return false;
        }
        is_done.await.unwrap_or(false)
    }
}

impl Writer {
    async fn run(mut self, mut waiting: mpsc::Receiver<Waiting>) {
        loop {
            if self.attempt.is_none() && !self.left.is_empty() {
                self.attempt = Some(self.write_left());
            }
            let attempt = async {
                match &mut self.attempt {
                    Some(attempt) => attempt.await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                first = waiting.recv() => match first {
                    Some(first) => self.take(first, &mut waiting).await,
                    None => return,
                },
                outcome = attempt => {
                    self.attempt = None;
                    self.attempted(outcome.unwrap_or_default()).await;
                }
            }
        }
    }

    /// Writes what requests wait for, or keeps it.
    async fn take(&mut self, first: Waiting, waiting: &mut mpsc::Receiver<Waiting>) {
        let mut group = vec![first];
        while group.iter().map(|(seen, _)| seen.len()).sum::<usize>() < MAX_AT_ONCE
            && let Ok(next) = waiting.try_recv()
        {
            group.push(next);
        }
        let seen: Vec<EnvelopeReport> = group.iter().flat_map(|(seen, _)| seen.clone()).collect();
        let is_away = self.away_until.is_some_and(|until| Instant::now() < until);
        let is_written = !is_away && self.write(&seen).await;
        if !is_written {
            self.keep(seen).await;
        }
        for (_, done) in group {
            // who was cut off does not hear it
            let _ = done.send(is_written);
        }
    }

    async fn keep(&mut self, mut seen: Vec<EnvelopeReport>) {
        seen.retain(|report| self.waiting.insert(report.short()));
        if seen.is_empty() {
            return;
        }
        if self.left.len() + seen.len() > MAX_WAITING {
            for report in &seen {
                self.waiting.remove(&report.short());
            }
            dropped(seen.len());
            return;
        }
        let added = seen.clone();
        self.on_disk(move |kept| kept.add(&added)).await;
        self.left.extend(seen);
        metrics::sessions_waiting(self.left.len());
    }

    /// Tries the oldest of what is left, beside the requests: after a pause when PostgreSQL is away.
    fn write_left(&self) -> AbortOnDropHandle<Attempted> {
        let some: Vec<EnvelopeReport> = self.left.iter().take(MAX_AT_ONCE).cloned().collect();
        let (pool, clock) = (self.pool.clone(), self.clock.clone());
        let pause = if self.away_until.is_some() { BACK_OFF } else { Duration::ZERO };
        AbortOnDropHandle::new(tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            // The agent counts as named from now on, not from when it was reported: nobody could ask for it before.
            let asked_at = clock.now();
            Some((written(&pool, &some, asked_at, LATER_ATTEMPT).await?, some, asked_at))
        }))
    }

    async fn attempted(&mut self, outcome: Attempted) {
        let Some((known, some, asked_at)) = outcome else {
            self.away_until = Some(Instant::now() + AWAY);
            return;
        };
        self.away_until = None;
        self.learn(&some, &known, asked_at);
        for taken in self.left.drain(..some.len()) {
            self.waiting.remove(&taken.short());
        }
        metrics::sessions_waiting(self.left.len());
        if self.left.is_empty() {
            self.on_disk(EnvelopeSpill::clear).await;
        } else if self.kept.as_ref().is_some_and(|kept| kept.lines > 2 * MAX_WAITING) {
            // PostgreSQL takes them no faster than they come: the file must not grow for ever.
            let left = self.left.clone();
            self.on_disk(move |kept| kept.replace(&left)).await;
        }
    }

    /// Whether PostgreSQL has taken them.
    async fn write(&mut self, seen: &[EnvelopeReport]) -> bool {
        let asked_at = self.clock.now();
        let known = written(&self.pool, seen, asked_at, ATTEMPT).await;
        match &known {
            Some(known) => self.learn(seen, known, asked_at),
            None => self.away_until = Some(Instant::now() + AWAY),
        }
        known.is_some()
    }

    fn learn(&self, seen: &[EnvelopeReport], known: &HashMap<Session, SessionState>, asked_at: DateTime<Utc>) {
        self.memory.learn(seen.iter().map(|seen| (seen.org, seen.session)), known, asked_at);
        let mut remembered = self.written.lock().expect("no holder of the lock panics");
        for report in seen {
            remembered.put(report.short(), ());
        }
    }

    /// Away from the threads that serve requests.
    async fn on_disk(&mut self, work: impl FnOnce(&mut EnvelopeSpill) -> io::Result<()> + Send + 'static) {
        let Some(mut kept) = self.kept.take() else { return };
        let worked = tokio::task::spawn_blocking(move || {
            let result = work(&mut kept);
            (kept, result)
        });
        let Ok((kept, result)) = worked.await else { return };
        self.kept = Some(kept);
        if let Err(error) = result {
            tracing::error!("sessions that wait for PostgreSQL cannot be kept on disk: {error}");
        }
    }
}
