//! Work that repeats at an interval.

use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::task::AbortOnDropHandle;

/// Runs `round` once per interval until the handle is dropped. The first round waits for an interval, so a process that restarts
/// repeatedly doesn't run it at every start.
pub fn start<F, Fut>(every: Duration, mut round: F) -> AbortOnDropHandle<()>
where
    F: FnMut() -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut rounds = tokio::time::interval_at(Instant::now() + every, every);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            rounds.tick().await;
            round().await;
        }
    }))
}
