//! Byte budgets for what a tenant writes to the stores (docs/api/http.md#budgets).
//!
//! A budget starts full and refills evenly within an hour. Each row costs [`ROW_BYTES`] in addition to its own bytes, because small rows
//! have overhead.

use crate::http::ApiError;
use crate::metric_definitions::common;
use chrono::{DateTime, TimeDelta, Utc};
use schemas::ids::OrgId;
use schemas::problem::Code;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Overhead per row: its columns, and its share of the indexes and the write-ahead log.
pub const ROW_BYTES: u64 = 1_024;
const REFILL: TimeDelta = TimeDelta::hours(1);
/// Minimum number of tenants before full budgets are removed from memory.
const SWEEP_FROM: usize = 4_096;

/// Returns the cost of `rows` rows with `bytes` bytes in total.
pub fn cost(rows: usize, bytes: usize) -> u64 {
    (rows as u64).saturating_mul(ROW_BYTES).saturating_add(bytes as u64)
}

/// Budgets of equal size, one for each `K`.
pub struct Budgets<K: Copy + Eq + Hash = OrgId> {
    /// Limit in bytes; 0 means unlimited.
    size: u64,
    spent: Mutex<Tenants<K>>,
}

struct Tenants<K> {
    spent: HashMap<K, Spent>,
    /// Number of tenants that triggers the next sweep: twice as many as the last one left, so that most writes don't sweep.
    sweep_at: usize,
}

#[derive(Clone, Copy)]
struct Spent {
    bytes: u64,
    at: DateTime<Utc>,
}

impl<K: Copy + Eq + Hash> Budgets<K> {
    /// Creates budgets of `size` bytes; 0 means unlimited.
    pub fn new(size: u64) -> Self {
        Self { size, spent: Mutex::new(Tenants { spent: HashMap::new(), sweep_at: SWEEP_FROM }) }
    }

    /// Spends `bytes` before a write; returns 429 if too few are left. A write larger than the whole budget requires a full budget.
    pub fn spend(&self, key: K, bytes: u64, now: DateTime<Utc>) -> Result<(), ApiError> {
        self.spend_more(key, 0, bytes, now)
    }

    /// Like [`Self::spend`], for a write that has already spent `before` and must be repeated from the beginning if this fails.
    /// `Retry-After` is the time until the budget has `before` and `bytes`, or is full.
    pub fn spend_more(&self, key: K, before: u64, bytes: u64, now: DateTime<Utc>) -> Result<(), ApiError> {
        self.change(key, now, |spent, size| {
            let bytes = bytes.min(size);
            let lacking = spent.saturating_add(bytes).saturating_sub(size);
            if lacking > 0 { Err(lacking.saturating_add(before).min(spent)) } else { Ok(spent + bytes) }
        })
    }

    /// Returns 429 if less than `bytes` is left, without spending anything. For a write in parts that can't exceed the budget.
    pub fn check(&self, key: K, bytes: u64, now: DateTime<Utc>) -> Result<(), ApiError> {
        self.change(key, now, |spent, size| {
            let lacking = spent.saturating_add(bytes).saturating_sub(size);
            if lacking > 0 { Err(if bytes > size { size } else { lacking }) } else { Ok(spent) }
        })
    }

    /// Spends `bytes` for a write of initially unknown size. Returns whether the budget sufficed; if not, the budget is now empty and the
    /// caller must skip the write.
    pub fn spend_late(&self, key: K, bytes: u64, now: DateTime<Utc>) -> bool {
        let mut had_all = true;
        let spent = self.change(key, now, |spent, size| {
            had_all = spent.saturating_add(bytes) <= size;
            Ok(spent.saturating_add(bytes).min(size))
        });
        if !had_all {
            common::over_budget();
        }
        spent.is_ok() && had_all
    }

    fn change(&self, key: K, now: DateTime<Utc>, spend: impl FnOnce(u64, u64) -> Result<u64, u64>) -> Result<(), ApiError> {
        if self.size == 0 {
            return Ok(());
        }
        let mut tenants = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let Tenants { spent: all, sweep_at } = &mut *tenants;
        if all.len() >= *sweep_at {
            all.retain(|_, spent| self.remaining(*spent, now) > 0);
            *sweep_at = SWEEP_FROM.max(2 * all.len());
        }
        let before = all.get(&key).map_or(0, |spent| self.remaining(*spent, now));
        match spend(before, self.size) {
            Ok(after) => {
                all.insert(key, Spent { bytes: after, at: now });
                Ok(())
            }
            Err(lacking) => {
                common::over_budget();
                Err(over(self.time_for(lacking)))
            }
        }
    }

    /// Returns the bytes that are still spent. Setting the clock back doesn't refill the budget.
    fn remaining(&self, spent: Spent, now: DateTime<Utc>) -> u64 {
        let passed = (now - spent.at).clamp(TimeDelta::zero(), REFILL).num_milliseconds().unsigned_abs();
        let refilled = u128::from(self.size) * u128::from(passed) / u128::from(REFILL.num_milliseconds().unsigned_abs());
        spent.bytes.saturating_sub(u64::try_from(refilled).unwrap_or(u64::MAX))
    }

    fn time_for(&self, bytes: u64) -> Duration {
        let whole = u128::from(REFILL.num_milliseconds().unsigned_abs());
        let millis = (u128::from(bytes) * whole).div_ceil(u128::from(self.size));
        Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
    }
}

fn over(wait: Duration) -> ApiError {
    let detail = "The organization has used its write budget for this hour. Wait for the time in Retry-After, then try again.";
    ApiError::new(Code::TooManyRequests, detail).retry_after(wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::response::IntoResponse as _;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap()
    }

    #[test]
    fn budget_refills_within_an_hour() {
        let budgets = Budgets::new(3_600);
        let spend = |key: u32, bytes, seconds| budgets.spend(key, bytes, at(seconds)).is_ok();
        assert!(spend(1, 3_600, 0) && !spend(1, 1, 0) && spend(2, 3_600, 0), "each tenant has its own budget");
        assert!(!spend(1, 11, 10) && spend(1, 10, 10) && !spend(1, 1, 10));
        assert!(!spend(1, 1, 5), "a clock that moves back must not refill the budget");
        assert!(spend(1, 3_600, 3_610) && !spend(1, 1, 3_610));
        assert!(spend(1, 3_600, 100_000) && !spend(1, 1, 100_000), "a budget never exceeds its size");
    }

    #[test]
    fn oversized_write_requires_a_full_budget() {
        let budgets = Budgets::new(100);
        assert!(budgets.spend(1, 1_000, at(0)).is_ok());
        assert!(budgets.spend(1, 1_000, at(3_599)).is_err());
        assert!(budgets.spend(1, 1_000, at(3_600)).is_ok());
    }

    #[test]
    fn returns_when_to_retry() {
        let budgets = Budgets::new(3_600);
        budgets.spend(1, 3_600, at(0)).unwrap();
        let refusal = budgets.spend(1, 30, at(0)).unwrap_err();
        assert_eq!(refusal.code(), Code::TooManyRequests);
        assert_eq!(budgets.time_for(30), Duration::from_secs(30));
    }

    #[test]
    fn write_in_parts_succeeds_after_retry_after() {
        let (budgets, small) = (Budgets::new(3_600), Budgets::new(100));
        let wait = |refused: Result<(), ApiError>| refused.unwrap_err().into_response().headers()["retry-after"].clone();
        budgets.spend(1, 3_000, at(0)).unwrap();
        budgets.spend_more(1, 0, 400, at(0)).unwrap();
        assert_eq!(wait(budgets.spend_more(1, 400, 300, at(0))), "500");
        assert!(budgets.spend(1, 700, at(499)).is_err() && budgets.spend(1, 700, at(500)).is_ok());
        small.spend_more(1, 0, 100, at(0)).unwrap();
        assert_eq!(wait(small.spend_more(1, 100, 100, at(0))), "3600", "no longer than until it is full");
    }

    #[test]
    fn checking_does_not_spend_budget() {
        let budgets = Budgets::new(3_600);
        let wait = |bytes, seconds| {
            let refused = budgets.check(1, bytes, at(seconds)).err()?;
            Some(refused.into_response().headers()["retry-after"].to_str().unwrap().to_owned())
        };
        assert_eq!((wait(3_600, 0), wait(3_600, 0), wait(3_601, 0)), (None, None, Some("3600".to_owned())));
        budgets.spend(1, 3_600, at(0)).unwrap();
        assert_eq!((wait(1, 0), wait(100, 0), wait(100, 100)), (Some("1".to_owned()), Some("100".to_owned()), None));
    }

    #[test]
    fn oversized_late_write_empties_the_budget() {
        let budgets = Budgets::new(3_600);
        assert!(budgets.spend_late(1, 3_000, at(0)));
        assert!(!budgets.spend_late(1, 3_000, at(0)), "only 600 bytes are left");
        assert!(budgets.spend(1, 1, at(0)).is_err() && budgets.spend(1, 10, at(10)).is_ok());
    }

    #[test]
    fn zero_means_unlimited() {
        let budgets = Budgets::new(0);
        assert!((0..1_000).all(|_| budgets.spend(1, u64::MAX, at(0)).is_ok()) && budgets.spend_late(1, u64::MAX, at(0)));
    }

    #[test]
    fn removes_tenants_with_full_budgets() {
        let budgets = Budgets::new(100);
        for key in 0..20_000_u32 {
            budgets.spend(key, 1, at(i64::from(key) * 60)).unwrap();
        }
        assert!(budgets.spent.lock().unwrap().spent.len() <= SWEEP_FROM);
    }
}
