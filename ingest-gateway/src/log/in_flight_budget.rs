//! How much may be on its way to the log at once.
//!
//! A record beyond the budget goes to the spill. Without a spill it is refused, so organizations share the budget
//! (docs/api/http.md#shares).
//!
//! Must be given back by the delivery, not by the request: a caller that hangs up frees no memory.

use crate::metrics;
use schemas::ids::OrgId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most records on their way. A broker that keeps up has far fewer; with more, each would wait longer than an fsync.
const MAX_RECORDS: usize = 2_048;

pub(super) struct Budget {
    max_bytes: usize,
    is_shared: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    all: Amount,
    by_org: HashMap<OrgId, Amount>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Amount {
    bytes: usize,
    records: usize,
}

/// A part of the budget, given back when dropped.
pub(super) struct Reservation {
    budget: Arc<Budget>,
    org: OrgId,
    bytes: usize,
}

impl Budget {
    /// Creates a budget, all of which one organization may have.
    pub(super) fn new(max_bytes: usize) -> Arc<Self> {
        Self::create(max_bytes, false)
    }

    /// Creates a budget of which no organization has more than is left for others.
    pub(super) fn shared(max_bytes: usize) -> Arc<Self> {
        Self::create(max_bytes, true)
    }

    fn create(max_bytes: usize, is_shared: bool) -> Arc<Self> {
        Arc::new(Self { max_bytes, is_shared, state: Mutex::default() })
    }

    /// None when too much is on its way already.
    pub(super) fn reserve(self: &Arc<Self>, org: OrgId, bytes: usize) -> Option<Reservation> {
        let mut state = self.lock();
        let all = state.all.plus(bytes);
        let own = state.by_org.get(&org).copied().unwrap_or_default().plus(bytes);
        let (free_bytes, free_records) = (self.max_bytes.checked_sub(all.bytes)?, MAX_RECORDS.checked_sub(all.records)?);
        if self.is_shared && (own.bytes > free_bytes || own.records > free_records) {
            return None;
        }
        state.all = all;
        state.by_org.insert(org, own);
        metrics::unacked_bytes(all.bytes);
        Some(Reservation { budget: Arc::clone(self), org, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is complete before a panic could happen.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Amount {
    fn plus(self, bytes: usize) -> Self {
        Self { bytes: self.bytes.saturating_add(bytes), records: self.records + 1 }
    }

    fn minus(self, bytes: usize) -> Self {
        Self { bytes: self.bytes.saturating_sub(bytes), records: self.records.saturating_sub(1) }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.all = state.all.minus(self.bytes);
        let own = state.by_org.get(&self.org).copied().unwrap_or_default().minus(self.bytes);
        match own.records {
            0 => drop(state.by_org.remove(&self.org)),
            _ => drop(state.by_org.insert(self.org, own)),
        }
        metrics::unacked_bytes(state.all.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn org(number: u128) -> OrgId {
        OrgId(Uuid::from_u128(number))
    }

    #[test]
    fn what_is_given_back_can_be_reserved_again() {
        let budget = Budget::new(10);
        let first = budget.reserve(org(1), 6).unwrap();
        assert!(budget.reserve(org(1), 5).is_none());
        let second = budget.reserve(org(1), 4).unwrap();
        drop(first);
        assert!(budget.reserve(org(1), 6).is_some());
        drop(second);
        let state = budget.lock();
        assert_eq!((state.all, state.by_org.len()), (Amount::default(), 0));
    }

    #[test]
    fn many_small_records_are_too_many() {
        let budget = Budget::new(usize::MAX / 2);
        let held: Vec<_> = (0..MAX_RECORDS).map(|_| budget.reserve(org(1), 1).unwrap()).collect();
        assert!(budget.reserve(org(1), 1).is_none());
        drop(held);
        assert!(budget.reserve(org(1), 1).is_some());
    }

    #[test]
    fn f53_without_a_spill_organizations_share_the_budget() {
        let take_all = |budget: &Arc<Budget>, number: u128, bytes: usize| -> Vec<Reservation> {
            (0..MAX_RECORDS).map_while(|_| budget.reserve(org(number), bytes)).collect()
        };
        let budget = Budget::shared(1_024);
        let by_bytes: Vec<_> = (1..=3).map(|number| take_all(&budget, number, 1)).collect();
        assert_eq!(by_bytes.iter().map(Vec::len).collect::<Vec<_>>(), [512, 256, 128]);
        let budget = Budget::shared(usize::MAX);
        let by_records: Vec<_> = (1..=3).map(|number| take_all(&budget, number, 1)).collect();
        assert_eq!(by_records.iter().map(Vec::len).collect::<Vec<_>>(), [1_024, 512, 256]);
    }
}
