//! Which agent answers in a session: said once, when the session is started or uploaded, and wanted on every event.
//!
//! Resolved at acceptance and kept on the log, so that a replay years later gives the same figures. Must not stand
//! in the way of an event: while PostgreSQL is away, a session this gateway has not met goes without its agent.

use super::store;
use chrono::{DateTime, TimeDelta, Utc};
use lru::LruCache;
use schemas::ids::{OrgId, SessionId};
use sqlx::PgPool;
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::time::Duration;

/// Sessions remembered at a time.
const REMEMBERED: usize = 100_000;
/// How long "no agent named yet" is believed; a named agent never changes.
const NONE_BELIEVED: TimeDelta = TimeDelta::seconds(10);
/// What the question may take.
const PATIENCE: Duration = Duration::from_millis(500);

type Session = (OrgId, SessionId);

/// The agent, or none so far, as of then.
type Answer = (Option<String>, DateTime<Utc>);

/// Agents by session.
pub(crate) struct SessionAgents {
    pool: PgPool,
    known: Mutex<LruCache<Session, Answer>>,
}

impl SessionAgents {
    pub(crate) fn new(pool: PgPool) -> Self {
        let capacity = NonZeroUsize::new(REMEMBERED).expect("the constant is not zero");
        Self { pool, known: Mutex::new(LruCache::new(capacity)) }
    }

    /// Takes over what was found out while sessions were written: who is among `found` has named an agent.
    pub(super) fn learn(&self, met: impl IntoIterator<Item = Session>, found: &HashMap<Session, String>, now: DateTime<Utc>) {
        let mut known = self.known.lock().expect("no holder of the lock panics");
        for session in met {
            known.put(session, (found.get(&session).cloned(), now));
        }
    }

    /// The agents of those sessions that have named one; one query for all that are not remembered.
    pub(crate) async fn resolve(&self, sessions: BTreeSet<Session>, now: DateTime<Utc>) -> HashMap<Session, String> {
        let (mut agents, unknown) = self.remembered(sessions, now);
        if !unknown.is_empty() {
            agents.extend(self.ask(unknown, now).await);
        }
        agents
    }

    /// The agents that are remembered, and the sessions of which nothing is.
    pub(crate) fn remembered(&self, sessions: BTreeSet<Session>, now: DateTime<Utc>) -> (HashMap<Session, String>, Vec<Session>) {
        let (mut agents, mut unknown) = (HashMap::new(), Vec::new());
        let mut known = self.known.lock().expect("no holder of the lock panics");
        for session in sessions {
            match known.get(&session) {
                Some((Some(agent), _)) => drop(agents.insert(session, agent.clone())),
                Some((None, asked_at)) if now - *asked_at < NONE_BELIEVED => {}
                _ => unknown.push(session),
            }
        }
        (agents, unknown)
    }

    async fn ask(&self, sessions: Vec<Session>, now: DateTime<Utc>) -> HashMap<Session, String> {
        let found = tokio::time::timeout(PATIENCE, store::agents_of(&self.pool, &sessions)).await;
        let Ok(Ok(found)) = found else {
            tracing::warn!(sessions = sessions.len(), "the agents of sessions could not be looked up; their events go without");
            return HashMap::new();
        };
        self.learn(sessions, &found, now);
        found
    }
}
