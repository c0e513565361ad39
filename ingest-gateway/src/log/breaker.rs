//! Decides whether records go to the log or, while it doesn't acknowledge, straight to the spill.
//!
//! This only saves waiting: durability never depends on the breaker's state.

use super::ACK_PATIENCE;
use crate::metrics;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

const CLOSED: u8 = 0;
const OPEN: u8 = 1;
/// No broker has responded yet, so the topic is unchecked and records must not be sent to it.
const UNCHECKED: u8 = 2;

pub(super) struct Breaker {
    state: AtomicU8,
    pub(super) opened: Notify,
}

impl Breaker {
    pub(super) fn new(is_checked: bool) -> Self {
        metrics::breaker_open(!is_checked);
        Self { state: AtomicU8::new(if is_checked { CLOSED } else { UNCHECKED }), opened: Notify::new() }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Relaxed) == CLOSED
    }

    pub(super) fn is_unchecked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == UNCHECKED
    }

    pub(super) fn checked(&self) {
        self.change(UNCHECKED, CLOSED, "the topic passed its check");
    }

    pub(super) fn open(&self, reason: &str) {
        if self.change(CLOSED, OPEN, reason) {
            self.opened.notify_one();
        }
    }

    /// Closes the breaker after a quick acknowledgement. A slower one, for which a request wouldn't wait, means that the log is slow, not
    /// that it has recovered.
    pub(super) fn acknowledged(&self, after: Duration) {
        if after <= ACK_PATIENCE && !self.is_closed() {
            self.change(OPEN, CLOSED, "the log acknowledges records again");
        }
    }

    fn change(&self, from: u8, to: u8, reason: &str) -> bool {
        let has_changed = self.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if has_changed {
            metrics::breaker_open(to != CLOSED);
            match to {
                CLOSED => tracing::info!("sending records to the log: {reason}"),
                _ => tracing::warn!("writing records to the spill: {reason}"),
            }
        }
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_quick_acknowledgement_closes_the_breaker() {
        let breaker = Breaker::new(true);
        breaker.open("test");
        breaker.acknowledged(ACK_PATIENCE * 2);
        assert!(!breaker.is_closed());
        breaker.acknowledged(ACK_PATIENCE / 2);
        assert!(breaker.is_closed());
    }

    #[test]
    fn only_the_check_closes_an_unchecked_breaker() {
        let breaker = Breaker::new(false);
        breaker.acknowledged(Duration::ZERO);
        breaker.open("test");
        assert!(breaker.is_unchecked());
        breaker.checked();
        assert!(breaker.is_closed());
    }
}
