//! For which organisations a session reads, noted once for each: the database turns the note into a row of the audit trail
//! (`schemas/postgres/0012_session_reads.sql`).

use crate::access::consent::bounded;
use chrono::{DateTime, Utc};
use lru::LruCache;
use schemas::ids::{OrgId, UserId};
use schemas::secrets::SecretHash;
use sqlx::PgPool;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pairs that a process remembers as noted; a forgotten one is noted again, which changes nothing.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(50_000).expect("is not 0");

const NOTE: &str = "INSERT INTO session_reads (token_hash, organization_id, user_id, first_read_at) VALUES ($1, $2, $3, $4) \
     ON CONFLICT (token_hash, organization_id) DO NOTHING";

pub(crate) struct SessionReads {
    pool: PgPool,
    noted: Mutex<LruCache<(SecretHash, OrgId), ()>>,
}

impl SessionReads {
    pub(crate) fn new(pool: PgPool) -> Self {
        Self { pool, noted: Mutex::new(LruCache::new(REMEMBERED)) }
    }

    /// Returns once the note is committed; 503 when it cannot be.
    pub(crate) async fn note(
        &self,
        session: &SecretHash,
        user: UserId,
        organization: OrgId,
        now: DateTime<Utc>,
    ) -> Result<(), sqlx::Error> {
        if self.noted().get(&(*session, organization)).is_some() {
            return Ok(());
        }
        let note = sqlx::query(NOTE).bind(session.as_bytes().as_slice()).bind(organization.0).bind(user.0).bind(now);
        bounded(note.execute(&self.pool)).await?;
        self.noted().put((*session, organization), ());
        Ok(())
    }

    fn noted(&self) -> MutexGuard<'_, LruCache<(SecretHash, OrgId), ()>> {
        // Every change is one step: what a panicking holder left is whole.
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
