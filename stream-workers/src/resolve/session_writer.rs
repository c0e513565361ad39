//! Writes the sessions that events name, from the events' records, before the events become readable.
//!
//! Waits while PostgreSQL is unavailable, because no other process writes these sessions. Writing them again has no effect
//! (`record_order_does_not_affect_sessions`). A session that PostgreSQL rejects as invalid is skipped.

use super::retry_until_ok;
use crate::consume::NamedSession;
use chrono::{DateTime, TimeDelta, Utc};
use futures::FutureExt as _;
use lru::LruCache;
use schemas::session::PrivacyLevel;
use service_kit::clock::Clock;
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use sqlx::error::DatabaseError;
use std::num::NonZeroUsize;
use uuid::Uuid;

const MAX_AT_ONCE: usize = 1_000;
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(100_000).expect("the constant is not zero");
/// How long a report is remembered as written. If retention deletes a session within this time, it is written again afterwards.
const BELIEVED: TimeDelta = TimeDelta::minutes(1);
const WRITE: &str = include_str!("sql/write_sessions.sql");

/// Digest of reporter, session and report.
type Fingerprint = [u8; 16];

pub(crate) struct SessionWriter {
    pool: PgPool,
    clock: Clock,
    /// Times of acceptance and of the write.
    written: LruCache<Fingerprint, (DateTime<Utc>, DateTime<Utc>)>,
}

impl SessionWriter {
    pub(crate) fn new(pool: PgPool, clock: Clock) -> Self {
        Self { pool, clock, written: LruCache::new(REMEMBERED) }
    }

    /// Writes the sessions in records, as of the records' acceptance.
    pub(crate) async fn write(&mut self, mut named: Vec<NamedSession>) {
        named.retain(|one| !self.is_known(one));
        named.sort_by_key(|one| one.accepted_at);
        for some in named.chunks(MAX_AT_ONCE) {
            if !self.is_stored(some).await {
                for one in some {
                    if !self.is_stored(std::slice::from_ref(one)).await {
                        let (org, session) = (one.org, one.report.session_id);
                        tracing::error!(%org, %session, "PostgreSQL rejected a session; skipping it");
                    }
                }
            }
            let now = self.clock.now();
            for one in some {
                self.written.get_or_insert(fingerprint(one), || (one.accepted_at, now));
            }
        }
    }

    /// Returns whether the same report was written recently, from a record that was accepted no later.
    fn is_known(&mut self, one: &NamedSession) -> bool {
        let (key, now) = (fingerprint(one), self.clock.now());
        match self.written.get(&key) {
            Some((accepted_at, at)) if *accepted_at <= one.accepted_at && (TimeDelta::zero()..BELIEVED).contains(&(now - at)) => {
                true
            }
            Some(_) => {
                self.written.pop(&key);
                false
            }
            None => false,
        }
    }

    /// Returns false if PostgreSQL rejects one of them as invalid.
    async fn is_stored(&self, named: &[NamedSession]) -> bool {
        let write = || async {
            match write(&self.pool, named).await {
                Err(error) if is_about_data(&error) => Ok(false),
                written => written.map(|()| true),
            }
        };
        retry_until_ok("sessions", named.len(), || write().boxed()).await
    }
}

fn fingerprint(NamedSession { org, report, .. }: &NamedSession) -> Fingerprint {
    let mut digest = Sha256::new();
    digest.update(org.0.as_bytes());
    digest.update(serde_json::to_vec(report).expect("a report has only strings and numbers"));
    let bytes: [u8; 32] = digest.finalize().into();
    *bytes.first_chunk().expect("16 of 32 bytes")
}

async fn write(pool: &PgPool, named: &[NamedSession]) -> Result<(), sqlx::Error> {
    let reports = || named.iter().map(|one| &one.report);
    sqlx::query(WRITE)
        .bind(named.iter().map(|one| one.org.0).collect::<Vec<Uuid>>())
        .bind(reports().map(|report| report.session_id.0).collect::<Vec<Uuid>>())
        .bind(reports().map(|report| report.privacy_level.map(PrivacyLevel::code)).collect::<Vec<_>>())
        .bind(reports().map(|report| report.parent_session_id.as_deref()).collect::<Vec<_>>())
        .bind(reports().map(|report| report.started_at).collect::<Vec<_>>())
        .bind(reports().map(|report| report.manifest_ref.as_deref()).collect::<Vec<_>>())
        .bind(reports().map(|report| report.agent_id.as_deref()).collect::<Vec<_>>())
        .bind(named.iter().map(|one| one.accepted_at).collect::<Vec<_>>())
        .execute(pool)
        .await?;
    Ok(())
}

/// Class 22 contains invalid values, class 23 constraint violations.
fn is_about_data(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::ids::{OrgId, SessionId};
    use schemas::session::SessionReport;
    use serde_json::{Value, json};
    use service_kit::testing::TestStores;

    /// Returns a session's report, accepted in this second.
    fn named(n: u128, second: i64, members: &Value) -> NamedSession {
        let mut report = json!({"session_id": Uuid::from_u128(n)});
        report.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let accepted_at = DateTime::from_timestamp(1_790_000_000 + second, 0).unwrap();
        NamedSession { org: OrgId(Uuid::from_u128(1)), accepted_at, report: serde_json::from_value(report).unwrap() }
    }

    type Row = (Uuid, Option<i16>, Option<String>, Option<DateTime<Utc>>, DateTime<Utc>);

    async fn rows(pool: &PgPool) -> Vec<Row> {
        let statement =
            "SELECT session_id, privacy_level, agent_id, agent_named_at, created_at FROM sessions ORDER BY session_id";
        sqlx::query_as(statement).fetch_all(pool).await.unwrap()
    }

    #[tokio::test]
    async fn rejected_session_does_not_delay_others() {
        let stores = TestStores::fresh().await;
        let refused = NamedSession {
            report: SessionReport { agent_id: Some("no\0text".to_owned()), ..SessionReport::new(SessionId(Uuid::from_u128(2))) },
            ..named(2, 0, &json!({}))
        };
        let all = vec![named(1, 0, &json!({"agent_id": "bot"})), refused, named(3, 0, &json!({}))];
        SessionWriter::new(stores.pool.clone(), Clock::System).write(all).await;
        let written: Vec<_> = rows(&stores.pool).await.into_iter().map(|row| (row.0, row.2)).collect();
        assert_eq!(written, [(Uuid::from_u128(1), Some("bot".to_owned())), (Uuid::from_u128(3), None)]);
    }

    #[tokio::test]
    async fn record_order_does_not_affect_sessions() {
        let stores = TestStores::fresh().await;
        let said = [
            named(1, 1, &json!({})),
            named(1, 2, &json!({"agent_id": "bot", "privacy_level": "summary"})),
            named(1, 3, &json!({"agent_id": "other", "privacy_level": "minimal"})),
            named(1, 4, &json!({"privacy_level": "full"})),
        ];
        let at = |second: usize| said[second].accepted_at;
        let expected = [(Uuid::from_u128(1), Some(0), Some("bot".to_owned()), Some(at(1)), at(0))];
        for first in 0..said.len() {
            for second in (0..said.len()).filter(|second| *second != first) {
                sqlx::query("DELETE FROM sessions").execute(&stores.pool).await.unwrap();
                let mut order = vec![said[first].clone(), said[second].clone()];
                order.extend(said.iter().enumerate().filter(|(n, _)| ![first, second].contains(n)).map(|(_, one)| one.clone()));
                // Write twice, because after a failed block a writer with an empty cache reads it again.
                for _ in 0..2 {
                    let mut writer = SessionWriter::new(stores.pool.clone(), Clock::System);
                    for one in &order {
                        writer.write(vec![one.clone()]).await;
                    }
                }
                assert_eq!(rows(&stores.pool).await, expected, "{first} {second}");
            }
        }
        sqlx::query("DELETE FROM sessions").execute(&stores.pool).await.unwrap();
        SessionWriter::new(stores.pool.clone(), Clock::System).write(said.iter().rev().cloned().collect()).await;
        assert_eq!(rows(&stores.pool).await, expected, "in one statement");
    }

    #[tokio::test]
    async fn rewrites_deleted_sessions_after_a_minute() {
        let (stores, one) = (TestStores::fresh().await, named(1, 0, &json!({"agent_id": "bot"})));
        let clock = Clock::manual(one.accepted_at);
        let mut writer = SessionWriter::new(stores.pool.clone(), clock.clone());
        writer.write(vec![one.clone()]).await;
        sqlx::query("DELETE FROM sessions").execute(&stores.pool).await.unwrap();
        writer.write(vec![one.clone()]).await;
        assert_eq!(rows(&stores.pool).await, [], "remembered as written");
        clock.advance(BELIEVED);
        writer.write(vec![one]).await;
        assert_eq!(rows(&stores.pool).await.len(), 1);
    }
}
