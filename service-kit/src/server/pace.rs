//! How fast a client has to take its answers.
//!
//! What counts is what the client's side has made room for, not what a buffer of ours has swallowed: `TCP_NOTSENT_LOWAT` keeps that
//! buffer small, so that room in it is the client's progress.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Least progress of a client that has an answer to read.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// In each such time …
    pub window: Duration,
    /// … it takes so many bytes, or all there are.
    pub bytes: usize,
}

impl Default for Pace {
    /// 1.4 KB a second; noticed within two windows.
    fn default() -> Self {
        Self { window: Duration::from_secs(12), bytes: 16 * 1024 }
    }
}

pub(super) struct Progress {
    ledger: Ledger,
    timer: Pin<Box<Sleep>>,
}

/// What a client has taken, while bytes wait for it.
struct Ledger {
    pace: Pace,
    window: Option<Window>,
}

struct Window {
    until: Instant,
    taken: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct Stalled;

impl Ledger {
    /// Bytes wait: when to look again.
    fn look(&mut self, now: Instant) -> Result<Instant, Stalled> {
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

impl Progress {
    pub(super) fn new(pace: Pace) -> Self {
        Self { ledger: Ledger { pace, window: None }, timer: Box::pin(sleep_until(Instant::now())) }
    }

    /// The client has made room for so many bytes.
    pub(super) fn took(&mut self, bytes: usize) {
        if let Some(window) = &mut self.ledger.window {
            window.taken += bytes;
        }
    }

    pub(super) fn done(&mut self) {
        self.ledger.window = None;
    }

    /// Bytes wait: ready once the client has taken too few of them.
    pub(super) fn poll_stalled(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Ok(until) = self.ledger.look(Instant::now()) {
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
    use crate::server::Limits;

    const PACE: Pace = Pace { window: Duration::from_secs(10), bytes: 100 };

    #[tokio::test]
    async fn a3_a_byte_a_second_is_no_progress_and_the_least_there_has_to_be_is_exact() {
        for (bytes_a_second, is_enough) in [(0, false), (1, false), (9, false), (10, true), (11, true)] {
            let (mut progress, start) = (Progress::new(PACE), Instant::now());
            let is_stalled = (0..=30).any(|second| {
                let looked = progress.ledger.look(start + Duration::from_secs(second));
                progress.took(bytes_a_second);
                looked.is_err()
            });
            assert_eq!(is_stalled, !is_enough, "{bytes_a_second} bytes a second");
        }
    }

    #[tokio::test]
    async fn a3_what_was_taken_fast_at_first_does_not_count_later() {
        let (mut progress, start) = (Progress::new(PACE), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        assert_eq!(progress.ledger.look(at(0)), Ok(at(10)));
        progress.took(1_000_000);
        assert_eq!(progress.ledger.look(at(10)), Ok(at(20)));
        assert_eq!(progress.ledger.look(at(19)), Ok(at(20)));
        assert_eq!(progress.ledger.look(at(20)), Err(Stalled), "within two windows, whatever came before");
    }

    /// Seconds until a client is cut that takes what `bytes_in` says in each second, by what the services use.
    fn cut_after(bytes_in: impl Fn(u64) -> usize) -> Option<u64> {
        let pace = Limits::of(&ClientSettings::default()).pace;
        let (mut ledger, start) = (Ledger { pace, window: None }, Instant::now());
        (0..=600).find(|second| {
            let looked = ledger.look(start + Duration::from_secs(*second));
            if let Some(window) = &mut ledger.window {
                window.taken += bytes_in(*second);
            }
            looked.is_err()
        })
    }

    #[tokio::test]
    async fn s15_who_stops_reading_or_reads_a_byte_a_second_is_cut_within_thirty_seconds_as_the_services_run() {
        for stops_after in 0..=60 {
            let cut = cut_after(|second| if second <= stops_after { 1_000_000 } else { 0 }).unwrap();
            assert!(cut <= stops_after + 30, "who stops after {stops_after} s is cut after {cut} s");
        }
        assert!(cut_after(|_| 1).unwrap() <= 30, "a byte a second");
        assert_eq!(cut_after(|_| 2_000), None, "who reads 2 KB a second is never cut");
    }

    #[tokio::test]
    async fn who_waits_for_us_is_not_slow() {
        let (mut progress, start) = (Progress::new(PACE), Instant::now());
        for minute in 0..10 {
            assert!(progress.ledger.look(start + Duration::from_secs(60 * minute)).is_ok());
            progress.done();
        }
    }
}
