//! Minimum speed at which a client must read its response.
//!
//! Counts the bytes for which the client made room, not those in our send buffer, which `TCP_NOTSENT_LOWAT` keeps small.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Minimum progress of a client while a response is pending.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub window: Duration,
    /// Bytes that the client must read per window, or all if there are fewer.
    pub bytes: usize,
}

impl Default for Pace {
    /// 1.4 KB per second; a slow client is detected within two windows.
    fn default() -> Self {
        Self { window: Duration::from_secs(12), bytes: 16 * 1024 }
    }
}

pub(super) struct ReadProgress {
    ledger: WindowTracker,
    timer: Pin<Box<Sleep>>,
}

/// Bytes that the client has taken while others are pending.
struct WindowTracker {
    pace: Pace,
    window: Option<Window>,
}

struct Window {
    until: Instant,
    taken: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct Stalled;

impl WindowTracker {
    /// Checks the progress while bytes are pending. Returns the time of the next check.
    fn check(&mut self, now: Instant) -> Result<Instant, Stalled> {
        match &self.window {
            Some(window) if now < window.until => return Ok(window.until),
            Some(window) if window.taken < self.pace.bytes => return Err(Stalled),
            _ => {}
        }
        let until = now + self.pace.window;
        self.window = Some(Window { until, taken: 0 });
        Ok(until)
    }
}

impl ReadProgress {
    pub(super) fn new(pace: Pace) -> Self {
        Self { ledger: WindowTracker { pace, window: None }, timer: Box::pin(sleep_until(Instant::now())) }
    }

    /// Records that the client made room for `bytes`.
    pub(super) fn took(&mut self, bytes: usize) {
        if let Some(window) = &mut self.ledger.window {
            window.taken += bytes;
        }
    }

    pub(super) fn done(&mut self) {
        self.ledger.window = None;
    }

    /// Called while bytes are pending. Ready once the client is too slow.
    pub(super) fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Ok(until) = self.ledger.check(Instant::now()) {
            if self.timer.deadline() != until {
                self.timer.as_mut().reset(until);
            }
            std::task::ready!(self.timer.as_mut().poll(context));
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_address::ClientSettings;
    use crate::server::ServerLimits;

    const PACE: Pace = Pace { window: Duration::from_secs(10), bytes: 100 };

    #[tokio::test]
    async fn a3_minimum_progress_is_exact() {
        for (bytes_a_second, is_enough) in [(0, false), (1, false), (9, false), (10, true), (11, true)] {
            let (mut progress, start) = (ReadProgress::new(PACE), Instant::now());
            let is_stalled = (0..=30).any(|second| {
                let looked = progress.ledger.check(start + Duration::from_secs(second));
                progress.took(bytes_a_second);
                looked.is_err()
            });
            assert_eq!(is_stalled, !is_enough, "{bytes_a_second} bytes a second");
        }
    }

    #[tokio::test]
    async fn early_speed_does_not_offset_later_stalls() {
        let (mut progress, start) = (ReadProgress::new(PACE), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        assert_eq!(progress.ledger.check(at(0)), Ok(at(10)));
        progress.took(1_000_000);
        assert_eq!(progress.ledger.check(at(10)), Ok(at(20)));
        assert_eq!(progress.ledger.check(at(19)), Ok(at(20)));
        assert_eq!(progress.ledger.check(at(20)), Err(Stalled), "detected within two windows, regardless of earlier progress");
    }

    /// Returns the number of seconds after which a client that reads `bytes_in(second)` bytes is cut off, with the services' settings.
    fn cut_after(bytes_in: impl Fn(u64) -> usize) -> Option<u64> {
        let pace = ServerLimits::for_clients(&ClientSettings::default()).pace;
        let (mut ledger, start) = (WindowTracker { pace, window: None }, Instant::now());
        (0..=600).find(|second| {
            let looked = ledger.check(start + Duration::from_secs(*second));
            if let Some(window) = &mut ledger.window {
                window.taken += bytes_in(*second);
            }
            looked.is_err()
        })
    }

    #[tokio::test]
    async fn s15_stalled_readers_are_cut_off_within_30_seconds() {
        for stops_after in 0..=60 {
            let cut = cut_after(|second| if second <= stops_after { 1_000_000 } else { 0 }).unwrap();
            assert!(cut <= stops_after + 30, "a client that stops after {stops_after} s is cut off after {cut} s");
        }
        assert!(cut_after(|_| 1).unwrap() <= 30, "a byte a second");
        assert_eq!(cut_after(|_| 2_000), None, "a client that reads 2 KB per second is never cut off");
    }

    #[tokio::test]
    async fn server_wait_does_not_count_as_client_idle() {
        let (mut progress, start) = (ReadProgress::new(PACE), Instant::now());
        for minute in 0..10 {
            assert!(progress.ledger.check(start + Duration::from_secs(60 * minute)).is_ok());
            progress.done();
        }
    }
}
