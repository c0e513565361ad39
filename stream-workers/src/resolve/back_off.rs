//! The pause before a store that did not answer is asked again: longer each time, up to a bound.
//!
//! Must not give up: that a store is away is no reason to skip a record.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// The pauses of one attempt after the other.
pub(crate) struct BackOff(Duration);

impl Default for BackOff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl BackOff {
    /// Waits; the next time twice as long.
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST);
    }
}
