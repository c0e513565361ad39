//! Budgets of content owners, whose accounts anyone can create (docs/api/http.md#budgets). Operators approve platforms and agents,
//! which have one only for the coverage of their drains.

use super::limits::Limits;
use crate::State;
use chrono::{DateTime, Utc};
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use service_kit::auth::Caller;
use service_kit::budgets::{Budgets, cost};
use service_kit::http::ApiError;

pub(crate) struct SelfServe {
    /// Everything that an organization without a verified domain writes.
    unverified: Budgets,
    /// Rows of PostgreSQL that an organization writes: sessions, and coverage of its drains.
    rows: Budgets,
}

impl SelfServe {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { unverified: Budgets::new(limits.unverified_bytes), rows: Budgets::new(limits.owner_bytes) }
    }

    /// Spends the body of a write, or returns 429. Does nothing for organizations with a verified domain.
    pub(crate) async fn spend(&self, state: &State, caller: &Caller, bytes: usize) -> Result<(), ApiError> {
        if caller.org_type != OrgType::ContentOwner || !state.callers.owned_sites(caller.org_id).await?.is_empty() {
            return Ok(());
        }
        self.unverified.spend(caller.org_id, cost(1, bytes), state.clock.now())
    }

    /// Spends a row of PostgreSQL, or returns 429.
    pub(crate) fn spend_row(&self, state: &State, caller: &Caller, bytes: usize) -> Result<(), ApiError> {
        match caller.org_type {
            OrgType::ContentOwner => self.rows.spend(caller.org_id, cost(1, bytes), state.clock.now()),
            OrgType::Platform | OrgType::Agent => Ok(()),
        }
    }

    /// Spends rows that were counted after their request was accepted. Returns false if they must not be written.
    pub(crate) fn spend_late(&self, org: OrgId, rows: usize, now: DateTime<Utc>) -> bool {
        self.rows.spend_late(org, cost(rows, 0), now)
    }
}
