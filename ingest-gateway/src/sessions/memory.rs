//! What is known of sessions: which agent answers in them, and how much of their conversation may be kept. Both are said
//! once, when a session is started or uploaded, and wanted on its events.
//!
//! Resolved at acceptance and kept on the log, so that a replay years later gives the same figures. Must not stand
//! in the way of an event: while PostgreSQL is away, of a session this gateway has not met nothing is known.

use chrono::{DateTime, TimeDelta, Utc};
use lru::LruCache;
use schemas::session::PrivacyLevel;
use service_kit::database::Database;
use service_kit::sessions::{self, Session, SessionState};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::Mutex;

/// Sessions remembered at a time.
const REMEMBERED: usize = 100_000;
/// How long what can still change is believed: a named agent never changes, and nothing is stricter than `minimal`.
const BELIEVED: TimeDelta = TimeDelta::seconds(10);

/// Which of it an event needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NeededFacts {
    pub(crate) agent: bool,
    pub(crate) level: bool,
}

impl NeededFacts {
    /// Both needs.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { agent: self.agent || other.agent, level: self.level || other.level }
    }

    /// Whether what is known can change no more.
    fn is_settled_by(self, known: &SessionState) -> bool {
        (!self.agent || known.agent.is_some()) && (!self.level || known.level == Some(PrivacyLevel::Minimal))
    }
}

/// What could be found out of sessions.
pub(crate) struct Recalled {
    /// A session that is missing here may have said anything.
    pub(crate) known: HashMap<Session, SessionState>,
    /// Those that may have said more than is known, and could not be asked for.
    pub(crate) unasked: BTreeSet<Session>,
}

/// Sessions by id, as of when they were asked for.
pub(crate) struct SessionMemory {
    database: Database,
    known: Mutex<LruCache<Session, (SessionState, DateTime<Utc>)>>,
}

impl SessionMemory {
    pub(crate) fn new(database: Database) -> Self {
        let capacity = NonZeroUsize::new(REMEMBERED).expect("the constant is not zero");
        Self { database, known: Mutex::new(LruCache::new(capacity)) }
    }

    /// Takes over what was found out about sessions; one that is not among `found` has said nothing.
    pub(super) fn learn(
        &self,
        met: impl IntoIterator<Item = Session>,
        found: &HashMap<Session, SessionState>,
        now: DateTime<Utc>,
    ) {
        let mut known = self.known.lock().expect("no holder of the lock panics");
        for session in met {
            let mut news = found.get(&session).cloned().unwrap_or_default();
            // Answers overtake each other, and nothing that was said is ever taken back.
            if let Some((before, _)) = known.get(&session) {
                news.level = [news.level, before.level].into_iter().flatten().min();
                news.agent = before.agent.clone().or(news.agent);
            }
            known.put(session, (news, now));
        }
    }

    /// Takes over a level that was declared just now for sessions that are remembered, whether or not PostgreSQL has it
    /// yet. Of others nothing is known, which is no laxer.
    pub(crate) fn tighten(&self, sessions: impl IntoIterator<Item = Session>, level: PrivacyLevel) {
        let mut known = self.known.lock().expect("no holder of the lock panics");
        for session in sessions {
            if let Some((known, _)) = known.get_mut(&session) {
                known.level = Some(known.level.map_or(level, |before| before.min(level)));
            }
        }
    }

    /// What is known of the sessions, as far as wanted; one query for all that are not remembered, unless nobody may
    /// ask.
    pub(crate) async fn recall(&self, sessions: BTreeMap<Session, NeededFacts>, now: DateTime<Utc>, may_ask: bool) -> Recalled {
        let (mut known, stale) = self.remembered(sessions, now);
        if stale.is_empty() {
            return Recalled { known, unasked: BTreeSet::new() };
        }
        match if may_ask { self.ask(&stale, now).await } else { None } {
            Some(asked) => {
                known.extend(asked);
                Recalled { known, unasked: BTreeSet::new() }
            }
            None => Recalled { known, unasked: stale.into_iter().collect() },
        }
    }

    /// Everything that is remembered, and the sessions that should be asked for nevertheless.
    fn remembered(
        &self,
        sessions: BTreeMap<Session, NeededFacts>,
        now: DateTime<Utc>,
    ) -> (HashMap<Session, SessionState>, Vec<Session>) {
        let (mut found, mut stale) = (HashMap::new(), Vec::new());
        let mut known = self.known.lock().expect("no holder of the lock panics");
        for (session, wanted) in sessions {
            let remembered = known.get(&session);
            if remembered.is_none_or(|(known, asked_at)| !wanted.is_settled_by(known) && now - *asked_at >= BELIEVED) {
                stale.push(session);
            }
            found.extend(remembered.map(|(known, _)| (session, known.clone())));
        }
        (found, stale)
    }

    /// What those sessions have said; nothing while PostgreSQL is away.
    async fn ask(&self, asked: &[Session], now: DateTime<Utc>) -> Option<HashMap<Session, SessionState>> {
        let found = self.database.ask(sessions::find(self.database.pool(), asked)).await;
        let found = found.inspect_err(|error| tracing::error!(?error, "sessions cannot be looked up")).ok()??;
        self.learn(asked.iter().copied(), &found, now);
        Some(asked.iter().map(|session| (*session, found.get(session).cloned().unwrap_or_default())).collect())
    }
}
