//! Limits how many bytes and records may be sent but unacknowledged.
//!
//! The delivery report releases a reservation, not the request, so disconnecting doesn't free memory.

use crate::metrics;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum records in flight. A broker that keeps up has far fewer; more would wait longer than an fsync takes.
const MAX_RECORDS: usize = 2_048;

pub(super) struct Budget {
    max_bytes: usize,
    bytes: AtomicUsize,
    records: AtomicUsize,
}

pub(super) struct Reservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self { max_bytes, bytes: AtomicUsize::new(0), records: AtomicUsize::new(0) })
    }

    /// Returns `None` if the budget is used up.
    pub(super) fn reserve(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let total = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let records = self.records.fetch_add(1, Ordering::Relaxed) + 1;
        let reservation = Reservation { budget: Arc::clone(self), bytes };
        metrics::unacked_bytes(total);
        (total <= self.max_bytes && records <= MAX_RECORDS).then_some(reservation)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.records.fetch_sub(1, Ordering::Relaxed);
        let before = self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        metrics::unacked_bytes(before - self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_bytes_can_be_reserved_again() {
        let budget = Budget::new(10);
        let first = budget.reserve(6).unwrap();
        assert!(budget.reserve(5).is_none());
        let second = budget.reserve(4).unwrap();
        drop(first);
        assert!(budget.reserve(6).is_some());
        drop(second);
        assert_eq!((budget.bytes.load(Ordering::Relaxed), budget.records.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn limits_the_number_of_records() {
        let budget = Budget::new(usize::MAX / 2);
        let held: Vec<_> = (0..MAX_RECORDS).map(|_| budget.reserve(1).unwrap()).collect();
        assert!(budget.reserve(1).is_none());
        drop(held);
        assert!(budget.reserve(1).is_some());
    }
}
