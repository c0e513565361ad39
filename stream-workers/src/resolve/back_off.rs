//! Pauses between retries of a store that doesn't respond: each twice as long as the previous one, up to five seconds.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

pub(crate) struct BackOff(Duration);

impl Default for BackOff {
    fn default() -> Self {
        Self(FIRST)
    }
}

impl BackOff {
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST);
    }
}
