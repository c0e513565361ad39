//! Changes a session in PostgreSQL and on the log together.
//!
//! The transaction is committed once the log has the record, so a rejected or aborted request has no effect. Nothing is cached
//! before that.

use super::Levels;
use super::store::{self, Ended};
use crate::{State, privacy};
use chrono::{DateTime, Utc};
use schemas::ids::{OrgId, SessionId};
use schemas::problem::Code;
use schemas::session::{Outcome, SessionFacts};
use service_kit::auth::{Caller, Tenant};
use service_kit::http::ApiError;
use service_kit::slots::{NoSlot, Pool, Slot, Slots};
use sqlx::{Postgres, Transaction};
use std::sync::Arc;
use std::time::Duration;

/// A pending change. Dropping it rolls it back.
pub(crate) struct SessionChange<'a> {
    state: &'a State,
    org: OrgId,
    transaction: Transaction<'static, Postgres>,
    begun_at: DateTime<Utc>,
    known: Levels,
    /// Released after the connection.
    _slot: Slot<Tenant>,
}

/// Maximum concurrent changes. Each holds a PostgreSQL connection until the log has its record, so the limit is below the connection limit.
const CHANGES_AT_ONCE: usize = 14;
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn slots() -> Arc<Slots<Tenant>> {
    Slots::new(Pool::SessionChanges, CHANGES_AT_ONCE)
}

fn no_slot(why: NoSlot) -> ApiError {
    match why {
        NoSlot::OwnShare => {
            let detail = "The organization, with others of its owner, has too many session changes in progress. Try again when one finishes.";
            ApiError::new(Code::TooManyRequests, detail).retry_after(Duration::from_secs(1))
        }
        NoSlot::AllTaken => ApiError::unavailable(anyhow::anyhow!("{CHANGES_AT_ONCE} session changes are in progress")),
    }
}

impl<'a> SessionChange<'a> {
    /// Begins a change for a request of this size, and spends it from the caller's budget.
    pub(crate) async fn begin(state: &'a State, caller: &Caller, bytes: usize) -> Result<Self, ApiError> {
        state.write_budgets.spend_rows(state, caller, 1, bytes)?;
        let slot = state.session_changes.wait(caller.tenant(), PATIENCE).await.map_err(no_slot)?;
        let transaction = state.pool.begin().await?;
        Ok(Self { state, org: caller.org_id, transaction, begun_at: state.clock.now(), known: Levels::new(), _slot: slot })
    }

    /// Merges facts into the session, and removes the facts' members that its level doesn't allow. Returns whether `facts.outcome` is the
    /// recorded outcome.
    pub(crate) async fn merge(&mut self, facts: &mut SessionFacts) -> Result<bool, ApiError> {
        let session = (self.org, facts.session_id);
        // Accepted events may have declared a level that the worker has not stored yet.
        let level = [facts.privacy_level, self.state.session_levels.declared(session)].into_iter().flatten().min();
        let (is_outcome_recorded, level) = store::merge(&mut self.transaction, self.org, facts, level, self.begun_at).await?;
        facts.extra = facts.extra.take().and_then(|extra| privacy::strip_members(&extra, level));
        if let Some(extra) = &facts.extra {
            store::keep_members(&mut self.transaction, self.org, facts.session_id, extra.get()).await?;
        }
        self.known.insert(session, level);
        Ok(is_outcome_recorded)
    }

    pub(crate) async fn end(
        &mut self,
        session: SessionId,
        outcome: Option<&Outcome>,
        now: DateTime<Utc>,
    ) -> Result<Ended, ApiError> {
        let named = (self.org, session);
        let ended = store::end(&mut self.transaction, self.org, session, outcome, now).await?;
        if ended != Ended::Unknown || !self.state.session_levels.is_named(named) {
            return Ok(ended);
        }
        store::add_named(&mut *self.transaction, named, self.state.session_levels.declared(named), now).await?;
        Ok(store::end(&mut self.transaction, self.org, session, outcome, now).await?)
    }

    pub(crate) fn known(&self) -> &Levels {
        &self.known
    }

    /// Commits the change. Call it once the log has the record.
    pub(crate) async fn commit(self) -> Result<(), ApiError> {
        self.transaction.commit().await?;
        self.state.session_levels.merge_stored(self.known.keys().copied(), &self.known, self.begun_at);
        Ok(())
    }
}

/// Returns whether the organization has the session, as far as this gateway knows. If so, PostgreSQL has it afterwards.
pub(crate) async fn is_usable(state: &State, org: OrgId, session: SessionId) -> Result<bool, ApiError> {
    if store::exists(&state.pool, org, session).await? {
        return Ok(true);
    }
    let named = (org, session);
    if !state.session_levels.is_named(named) {
        return Ok(false);
    }
    store::add_named(&state.pool, named, state.session_levels.declared(named), state.clock.now()).await?;
    Ok(true)
}

/// Runs work to completion even if the client disconnects, because it must not stop between the log and the commit.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    tokio::spawn(work).await.map_err(ApiError::internal)?
}
