//! Caches sessions' privacy levels: those in PostgreSQL, and those that accepted events declared but the worker has not stored yet.
//!
//! The cache never delays an event: while PostgreSQL is unavailable, the level of a session that was never looked up is unknown. Cached
//! levels only become stricter.

use super::store::{self, Levels};
use chrono::{DateTime, TimeDelta, Utc};
use lru::LruCache;
use schemas::ids::OrgId;
use schemas::session::{PrivacyLevel, SessionReport};
use service_kit::click_token_lookups::Session;
use service_kit::optional_postgres::OptionalPostgres;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Mutex;

const REMEMBERED: NonZeroUsize = NonZeroUsize::new(100_000).expect("the constant is not zero");
/// Time for which a cached level is trusted, although it may become stricter.
const BELIEVED: TimeDelta = TimeDelta::seconds(10);

#[derive(Clone, Copy, Default)]
struct CachedLevel {
    /// The strictest level in PostgreSQL or in accepted events.
    level: Option<PrivacyLevel>,
    asked_at: Option<DateTime<Utc>>,
    /// Whether an accepted record names the session, so the worker will store it.
    is_named: bool,
}

impl CachedLevel {
    fn tighten(&mut self, level: Option<PrivacyLevel>) {
        self.level = [self.level, level].into_iter().flatten().min();
    }

    fn is_current(&self, now: DateTime<Utc>) -> bool {
        self.level == Some(PrivacyLevel::Minimal) || self.asked_at.is_some_and(|asked_at| now - asked_at < BELIEVED)
    }
}

pub(crate) struct SessionLevelCache {
    database: OptionalPostgres,
    known: Mutex<LruCache<Session, CachedLevel>>,
}

impl SessionLevelCache {
    pub(crate) fn new(database: OptionalPostgres) -> Self {
        Self { database, known: Mutex::new(LruCache::new(REMEMBERED)) }
    }

    /// Remembers the sessions of a record on the log, so this gateway finds them immediately and applies their levels.
    pub(crate) fn note_accepted(&self, org: OrgId, named: &[SessionReport]) {
        let mut known = self.known.lock().expect("no holder of the lock panics");
        for report in named {
            let session = known.get_or_insert_mut((org, report.session_id), CachedLevel::default);
            session.is_named = true;
            session.tighten(report.privacy_level);
        }
    }

    pub(crate) fn is_named(&self, session: Session) -> bool {
        self.known.lock().expect("no holder of the lock panics").get(&session).is_some_and(|known| known.is_named)
    }

    pub(crate) fn declared(&self, session: Session) -> Option<PrivacyLevel> {
        self.known.lock().expect("no holder of the lock panics").get(&session)?.level
    }

    /// Merges levels from PostgreSQL and returns the result. Sessions missing from `found` don't exist.
    pub(super) fn merge_stored(&self, met: impl IntoIterator<Item = Session>, found: &Levels, now: DateTime<Utc>) -> Levels {
        let mut known = self.known.lock().expect("no holder of the lock panics");
        let learn = |session: Session| {
            let remembered = known.get_or_insert_mut(session, CachedLevel::default);
            remembered.tighten(found.get(&session).copied().flatten());
            remembered.asked_at = remembered.asked_at.max(Some(now));
            (session, remembered.level)
        };
        met.into_iter().map(learn).collect()
    }

    /// Returns these sessions' levels, with one query for all that are not cached. A session that can't be looked up is missing from the
    /// result, because it may have declared any level.
    pub(crate) async fn levels(&self, sessions: BTreeSet<Session>, now: DateTime<Utc>) -> Levels {
        let (mut known, stale) = self.remembered(sessions, now);
        if !stale.is_empty() {
            let found = self.database.query(store::levels(self.database.pool(), &stale)).await;
            match found {
                Ok(Some(found)) => known.extend(self.merge_stored(stale, &found, now)),
                Ok(None) => {}
                Err(error) => tracing::error!(?error, "failed to look up sessions"),
            }
        }
        known
    }

    /// Returns cached levels, and the sessions to look up.
    fn remembered(&self, sessions: BTreeSet<Session>, now: DateTime<Utc>) -> (Levels, Vec<Session>) {
        let (mut found, mut stale) = (Levels::new(), Vec::new());
        let mut known = self.known.lock().expect("no holder of the lock panics");
        for session in sessions {
            let remembered = known.get(&session).copied().unwrap_or_default();
            let is_current = remembered.is_current(now);
            if !is_current {
                stale.push(session);
            }
            if is_current || remembered.asked_at.is_some() {
                found.insert(session, remembered.level);
            }
        }
        (found, stale)
    }
}
