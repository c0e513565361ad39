//! Records for which organizations a session reads, once per organization. The database adds an entry to the audit trail
//! (`schemas/postgres/0012_session_reads.sql`).

use crate::access::consent::with_deadline;
use chrono::{DateTime, Utc};
use lru::LruCache;
use schemas::ids::{OrgId, UserId};
use schemas::secrets::SecretHash;
use sqlx::PgPool;
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of cached pairs of session and organization. Storing an evicted pair again has no effect.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(50_000).expect("the capacity is not zero");

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

    /// Returns once the read is committed. Returns 503 if PostgreSQL is unavailable.
    pub(crate) async fn record(
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
        with_deadline(note.execute(&self.pool)).await?;
        self.noted().put((*session, organization), ());
        Ok(())
    }

    fn noted(&self) -> MutexGuard<'_, LruCache<(SecretHash, OrgId), ()>> {
        // Each change is a single operation, so a panic leaves the cache valid.
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
