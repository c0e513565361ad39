//! A change of a session: in PostgreSQL and on the log, or in neither.
//!
//! The rows change in a transaction that is committed once the log has the record, so that a request that is refused or
//! breaks off changes nothing. Must not remember anything of it before that.

use super::store::{self, Ended};
use crate::{State, privacy};
use chrono::{DateTime, Utc};
use schemas::ids::{OrgId, SessionId};
use schemas::session::{Outcome, SessionFacts};
use service_kit::http::ApiError;
use service_kit::sessions::{Session, SessionState};
use sqlx::{Postgres, Transaction};
use std::collections::HashMap;

/// A change under way; dropped, it has not happened.
pub(crate) struct Change<'a> {
    state: &'a State,
    org: OrgId,
    transaction: Transaction<'static, Postgres>,
    begun_at: DateTime<Utc>,
    known: HashMap<Session, SessionState>,
}

impl<'a> Change<'a> {
    /// Begins one of this session; what it said while PostgreSQL was away comes first, because it may have declared a level.
    pub(crate) async fn begin(state: &'a State, org: OrgId, session: SessionId) -> Result<Self, ApiError> {
        state.report_writer.write_left(org, session).await?;
        let transaction = state.pool.begin().await?;
        Ok(Self { state, org, transaction, begun_at: state.clock.now(), known: HashMap::new() })
    }

    /// Merges facts into the session, and withholds from them what its level does not let be kept. Answers whether
    /// `facts.outcome` is the outcome on record.
    pub(crate) async fn merge(&mut self, facts: &mut SessionFacts) -> Result<bool, ApiError> {
        let (is_outcome_recorded, known) = store::merge(&mut self.transaction, self.org, facts, self.begun_at).await?;
        facts.extra = facts.extra.take().and_then(|extra| privacy::strip_members(&extra, known.level));
        if let Some(extra) = &facts.extra {
            store::keep_members(&mut self.transaction, self.org, facts.session_id, extra.get()).await?;
        }
        self.known.insert((self.org, facts.session_id), known);
        Ok(is_outcome_recorded)
    }

    /// Ends a session.
    pub(crate) async fn end(
        &mut self,
        session: SessionId,
        outcome: Option<&Outcome>,
        now: DateTime<Utc>,
    ) -> Result<Ended, ApiError> {
        Ok(store::end(&mut self.transaction, self.org, session, outcome, now).await?)
    }

    /// What the session has said by now.
    pub(crate) fn known(&self) -> &HashMap<Session, SessionState> {
        &self.known
    }

    /// Makes it so; to be called once the log has the record.
    pub(crate) async fn commit(self) -> Result<(), ApiError> {
        self.transaction.commit().await?;
        self.state.memory.learn(self.known.keys().copied(), &self.known, self.begun_at);
        Ok(())
    }
}

/// Goes on also when the caller has left: between the log and the commit nobody may stop.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::spawn(work).await.map_err(ApiError::internal)?
}
