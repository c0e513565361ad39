//! Budgets of content owners, whose accounts anyone can create (docs/api/http.md#budgets). Operators approve platforms and agents, so those
//! have a budget only for drain coverage.

use super::limits::Limits;
use crate::State;
use chrono::{DateTime, Utc};
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::session::SessionReport;
use service_kit::auth::Caller;
use service_kit::byte_budgets::{Budgets, cost};
use service_kit::http::ApiError;

pub(crate) struct WriteBudgets {
    /// All writes by organizations without a verified domain.
    unverified: Budgets,
    /// PostgreSQL rows that content owners write: sessions and drain coverage.
    rows: Budgets,
    /// Drain coverage of platforms and agents.
    coverage: Budgets,
}

impl WriteBudgets {
    pub(crate) fn new(limits: &Limits) -> Self {
        let [unverified, rows, coverage] = [limits.unverified_bytes, limits.owner_bytes, limits.coverage_bytes].map(Budgets::new);
        Self { unverified, rows, coverage }
    }

    /// Spends a write, or returns 429. Does nothing for organizations with a verified domain.
    pub(crate) async fn spend(&self, state: &State, caller: &Caller, rows: usize, bytes: usize) -> Result<(), ApiError> {
        if !is_unverified(state, caller).await? {
            return Ok(());
        }
        self.unverified.spend(caller.org_id, cost(rows, bytes), state.clock.now())
    }

    /// Returns 429 if the budget can't pay for a log body of `bytes` or more. Spends nothing.
    pub(crate) async fn check_log(&self, state: &State, caller: &Caller, bytes: u64) -> Result<(), ApiError> {
        if !is_unverified(state, caller).await? {
            return Ok(());
        }
        self.unverified.check(caller.org_id, bytes.max(1), state.clock.now())
    }

    /// Spends `bytes` more for a log body that has spent `before`, or returns 429. Only for organizations without a verified domain.
    pub(crate) fn spend_log(&self, org: OrgId, before: u64, bytes: u64, now: DateTime<Utc>) -> Result<(), ApiError> {
        self.unverified.spend_more(org, before, bytes, now)
    }

    /// Spends PostgreSQL rows, or returns 429.
    pub(crate) fn spend_rows(&self, state: &State, caller: &Caller, rows: usize, bytes: usize) -> Result<(), ApiError> {
        match caller.org_type {
            OrgType::ContentOwner => self.rows.spend(caller.org_id, cost(rows, bytes), state.clock.now()),
            OrgType::Platform | OrgType::Agent => Ok(()),
        }
    }

    /// Spends the rows for sessions that events name, or returns 429. Sessions whose events this process has already accepted are free.
    pub(crate) async fn spend_named(&self, state: &State, caller: &Caller, named: &[SessionReport]) -> Result<(), ApiError> {
        if caller.org_type != OrgType::ContentOwner {
            return Ok(());
        }
        let new = named.iter().filter(|report| !state.session_levels.is_named((caller.org_id, report.session_id)));
        let sizes: Vec<usize> = new.map(|report| serde_json::to_vec(report).map_or(0, |json| json.len())).collect();
        let (rows, bytes) = (sizes.len(), sizes.iter().sum());
        self.spend(state, caller, rows, bytes).await?;
        self.spend_rows(state, caller, rows, bytes)
    }

    /// Spends an accepted body's coverage from a content owner's budget or another organization's. Returns false if it must not be stored.
    pub(crate) fn spend_coverage(&self, org: OrgId, is_of_owner: bool, bytes: u64, now: DateTime<Utc>) -> bool {
        let budgets = if is_of_owner { &self.rows } else { &self.coverage };
        budgets.spend_late(org, bytes, now)
    }
}

async fn is_unverified(state: &State, caller: &Caller) -> Result<bool, ApiError> {
    Ok(caller.org_type == OrgType::ContentOwner && state.callers.owned_sites(caller.org_id).await?.is_empty())
}
