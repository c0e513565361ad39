//! The age of the oldest record that was read but not stored, measured without a request to a server.

use rdkafka::Timestamp;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

const NONE: i64 = i64::MAX;

/// Times in milliseconds at which the oldest records of the block being stored and of the next block were appended to the log.
pub(crate) struct Lag {
    inserting: AtomicI64,
    filling: AtomicI64,
}

impl Default for Lag {
    fn default() -> Self {
        Self { inserting: AtomicI64::new(NONE), filling: AtomicI64::new(NONE) }
    }
}

impl Lag {
    pub(crate) fn add_record(&self, timestamp: Timestamp) {
        if let Some(at_ms) = timestamp.to_millis() {
            self.filling.fetch_min(at_ms, Ordering::Relaxed);
        }
    }

    /// Marks the block that was being filled as being stored.
    pub(crate) fn start_storing(&self) {
        self.inserting.store(self.filling.swap(NONE, Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(crate) fn finish_storing(&self) {
        self.inserting.store(NONE, Ordering::Relaxed);
    }

    /// Returns the oldest record's age; zero if there is no record.
    pub(crate) fn age_at(&self, now_ms: i64) -> Duration {
        let oldest = self.inserting.load(Ordering::Relaxed).min(self.filling.load(Ordering::Relaxed));
        Duration::from_millis(u64::try_from(now_ms.saturating_sub(oldest)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_the_age_of_the_oldest_unstored_record() {
        let lag = Lag::default();
        assert_eq!(lag.age_at(5_000), Duration::ZERO);
        for at_ms in [2_000, 1_000, 3_000] {
            lag.add_record(Timestamp::CreateTime(at_ms));
        }
        assert_eq!(lag.age_at(5_000), Duration::from_secs(4));
        lag.start_storing();
        lag.add_record(Timestamp::CreateTime(4_000));
        assert_eq!(lag.age_at(5_000), Duration::from_secs(4), "the record is not stored yet");
        lag.finish_storing();
        assert_eq!(lag.age_at(5_000), Duration::from_secs(1), "the next block is younger");
        assert_eq!(lag.age_at(3_000), Duration::ZERO, "another clock may be ahead of this one");
    }
}
