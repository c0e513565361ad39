//! Writes sessions that the gateway could not write: their records contain them.
//!
//! It waits as long as PostgreSQL is unavailable, because no other process has them. Writing them twice changes nothing. A session that
//! PostgreSQL refuses as data is skipped.

use super::patiently;
use futures::FutureExt as _;
use schemas::ids::OrgId;
use schemas::session::SessionReport;
use service_kit::clock::Clock;
use service_kit::sessions;
use sqlx::PgPool;
use sqlx::error::DatabaseError;

/// Most reports of one statement.
const MAX_AT_ONCE: usize = 1_000;

pub(crate) struct SessionWriter {
    pool: PgPool,
    clock: Clock,
}

impl SessionWriter {
    pub(crate) fn new(pool: PgPool, clock: Clock) -> Self {
        Self { pool, clock }
    }

    /// Writes what records say of their sessions. An agent counts as named from now on, not from when it was reported: nobody
    /// could ask for it before.
    pub(crate) async fn write(&self, reports: &[(OrgId, SessionReport)]) {
        for some in reports.chunks(MAX_AT_ONCE) {
            if !self.is_stored(some).await {
                for one in some {
                    if !self.is_stored(std::slice::from_ref(one)).await {
                        let (org, session) = (one.0, one.1.session_id);
                        tracing::error!(%org, %session, "PostgreSQL refuses what events say of this session; it is not written");
                    }
                }
            }
        }
    }

    /// False when PostgreSQL refuses one of them as data.
    async fn is_stored(&self, reports: &[(OrgId, SessionReport)]) -> bool {
        let write = || async {
            match sessions::write(&self.pool, reports, self.clock.now()).await {
                Err(error) if is_about_data(&error) => Ok(false),
                written => written.map(|_| true),
            }
        };
        patiently("sessions", reports.len(), || write().boxed()).await
    }
}

/// Class 22 is what cannot be a value, class 23 what breaks a constraint.
fn is_about_data(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DatabaseError::code);
    code.is_some_and(|code| code.starts_with("22") || code.starts_with("23"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::ids::SessionId;
    use service_kit::testing::TestStores;
    use uuid::Uuid;

    #[tokio::test]
    async fn what_postgres_refuses_of_one_session_holds_up_no_other() {
        let stores = TestStores::fresh().await;
        let (org, text) = (OrgId(Uuid::from_u128(1)), |text: &str| Some(text.to_owned()));
        let report = |n, agent_id| SessionReport {
            session_id: SessionId(Uuid::from_u128(n)),
            privacy_level: None,
            parent_session_id: None,
            started_at: None,
            manifest_ref: None,
            agent_id,
        };
        let reports = [report(1, text("bot")), report(2, text("no\0text")), report(3, None)].map(|report| (org, report));
        SessionWriter::new(stores.pool.clone(), Clock::System).write(&reports).await;
        let written: Vec<(Uuid, Option<String>)> =
            sqlx::query_as("SELECT session_id, agent_id FROM sessions ORDER BY session_id")
                .fetch_all(&stores.pool)
                .await
                .unwrap();
        assert_eq!(written, [(Uuid::from_u128(1), text("bot")), (Uuid::from_u128(3), None)]);
    }
}
