//! Limits how often a repeated warning is logged.

use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub struct LogThrottle(Option<Instant>);

impl LogThrottle {
    pub fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|last| last.elapsed() >= INTERVAL);
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }
}
