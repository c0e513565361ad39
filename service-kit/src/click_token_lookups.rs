//! Looks up click tokens (for gateway and worker) and session agents (for the worker).
//!
//! A token counts if it was valid when its event was accepted, and an agent if the session had named it by then.

use crate::lru::lru;
use chrono::{DateTime, Utc};
use moka::sync::Cache;
use schemas::ids::{OrgId, SessionId};
use schemas::secrets::SecretHash;
use sqlx::PgPool;
use std::collections::HashMap;
use uuid::Uuid;

pub type Session = (OrgId, SessionId);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedClickToken {
    /// The organization that issued the token.
    pub org: OrgId,
    pub session: SessionId,
    pub content_url: String,
    expires_at: DateTime<Utc>,
}

impl IssuedClickToken {
    pub fn is_valid_at(&self, at: DateTime<Utc>) -> bool {
        at < self.expires_at
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionAgent {
    agent: String,
    since: DateTime<Utc>,
}

impl SessionAgent {
    /// Returns the agent for an event accepted at `at`, if the session had named it by then.
    pub fn at(&self, at: DateTime<Utc>) -> Option<&str> {
        (self.since <= at).then_some(self.agent.as_str())
    }
}

/// Click cache, limited in bytes because links vary in length.
pub struct ClickTokenCache(Cache<SecretHash, IssuedClickToken>);

impl ClickTokenCache {
    /// Maximum size in bytes; about 100,000 clicks of usual length.
    const BUDGET: usize = 32 * 1024 * 1024;
    /// Bytes per entry besides its strings.
    const BESIDE_TEXTS: usize = 192;

    pub fn put(&mut self, hash: SecretHash, clicked: IssuedClickToken) {
        self.0.insert(hash, clicked);
    }

    pub fn get(&mut self, hash: &SecretHash) -> Option<IssuedClickToken> {
        self.0.get(hash)
    }
}

impl Default for ClickTokenCache {
    fn default() -> Self {
        let weight = |_: &SecretHash, clicked: &IssuedClickToken| {
            u32::try_from(Self::BESIDE_TEXTS + clicked.content_url.len()).unwrap_or(u32::MAX)
        };
        Self(lru(Self::BUDGET).weigher(weight).build())
    }
}

/// Token hash, organization, session, content URL, expiry.
type Row = (Vec<u8>, Uuid, Uuid, String, DateTime<Utc>);

/// Returns the sessions of these tokens, including expired tokens. A token missing from the result was never issued: PostgreSQL stores a
/// token before the API returns it.
pub async fn find_tokens(pool: &PgPool, hashes: &[SecretHash]) -> Result<HashMap<SecretHash, IssuedClickToken>, sqlx::Error> {
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT token_hash, organization_id, session_id, content_url, expires_at FROM click_tokens WHERE token_hash = ANY($1)",
    )
    .bind(hashes.iter().map(|hash| hash.as_bytes().to_vec()).collect::<Vec<_>>())
    .fetch_all(pool)
    .await?;
    let clicked = |(hash, org, session, content_url, expires_at): Row| {
        let clicked = IssuedClickToken { org: OrgId(org), session: SessionId(session), content_url, expires_at };
        Some((SecretHash::from_stored(&hash)?, clicked))
    };
    Ok(rows.into_iter().filter_map(clicked).collect())
}

/// Returns these sessions' agents. Unknown sessions and sessions without an agent are missing from the result.
pub async fn find_agents(pool: &PgPool, sessions: &[Session]) -> Result<HashMap<Session, SessionAgent>, sqlx::Error> {
    let (orgs, ids): (Vec<Uuid>, Vec<Uuid>) = sessions.iter().map(|(org, session)| (org.0, session.0)).unzip();
    let rows: Vec<(Uuid, Uuid, String, DateTime<Utc>)> = sqlx::query_as(
        "SELECT s.organization_id, s.session_id, s.agent_id, s.agent_named_at FROM unnest($1::uuid[], $2::uuid[]) AS asked (org, session) \
         JOIN sessions s ON s.organization_id = asked.org AND s.session_id = asked.session WHERE s.agent_id IS NOT NULL",
    )
    .bind(orgs)
    .bind(ids)
    .fetch_all(pool)
    .await?;
    let named = |(org, session, agent, since)| ((OrgId(org), SessionId(session)), SessionAgent { agent, since });
    Ok(rows.into_iter().map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::secrets::PlainClickToken;

    #[test]
    fn limits_the_cache_size_in_bytes() {
        let clicked = |length: usize| IssuedClickToken {
            org: OrgId(Uuid::nil()),
            session: SessionId(Uuid::nil()),
            content_url: "u".repeat(length),
            expires_at: DateTime::UNIX_EPOCH,
        };
        let hash = |n: usize| PlainClickToken::presented(&n.to_string()).hash();
        let mut remembered = ClickTokenCache::default();
        for n in 0..10_000 {
            remembered.put(hash(n), clicked(8_192));
            remembered.put(hash(n), clicked(8_192));
        }
        remembered.0.run_pending_tasks();
        assert!(remembered.0.weighted_size() <= ClickTokenCache::BUDGET as u64 && remembered.get(&hash(0)).is_none());
        assert_eq!(remembered.0.entry_count() as usize, ClickTokenCache::BUDGET / (8_192 + ClickTokenCache::BESIDE_TEXTS));
        assert!(remembered.get(&hash(9_999)).is_some());
    }
}
