//! Trouble that repeats is logged now and then, not every time.

use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(10);

/// When something was last said.
#[derive(Debug, Default)]
pub struct LogThrottle(Option<Instant>);

impl LogThrottle {
    /// Whether it is time to say it again.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|last| last.elapsed() >= INTERVAL);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}
