//! The clock as a parameter: the system clock in production, a manual clock in tests.

use chrono::{DateTime, TimeDelta, Utc};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

#[derive(Clone, Debug)]
pub enum Clock {
    System,
    /// Changes only when it is advanced.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// Creates a manual clock set to `start`, with microsecond precision.
    pub fn manual(start: DateTime<Utc>) -> Self {
        Self::Manual(Arc::new(AtomicI64::new(start.timestamp_micros())))
    }

    pub fn now(&self) -> DateTime<Utc> {
        match self {
            #[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
            Self::System => Utc::now(),
            Self::Manual(micros) => DateTime::from_timestamp_micros(micros.load(Ordering::SeqCst))
                .expect("a manual clock is created from a valid time"),
        }
    }

    pub fn advance(&self, by: TimeDelta) {
        if let Self::Manual(micros) = self {
            micros.fetch_add(by.num_microseconds().unwrap_or(0), Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_moves_only_when_advanced() {
        let start = DateTime::from_timestamp(1_790_000_000, 0).unwrap();
        let clock = Clock::manual(start);
        let other_handle = clock.clone();
        assert_eq!(clock.now(), start);
        clock.advance(TimeDelta::days(30));
        assert_eq!(other_handle.now(), start + TimeDelta::days(30));
    }
}
