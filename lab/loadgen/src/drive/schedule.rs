//! Due times of requests.
//!
//! In an open loop, request k is due at start + k × interval, regardless of the service, and its latency is measured from there. A
//! stall therefore counts for every request it delays (no coordinated omission). In a closed loop, a request is due when the
//! previous one on its connection has a response.

use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub arrivals: Arrivals,
    pub duration: Duration,
    pub max_requests: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub enum Arrivals {
    /// At a fixed rate.
    Open {
        per_second: f64,
        /// Maximum connections. A request that waits for a free connection counts the wait in its latency.
        max_connections: usize,
    },
    /// Paced by the responses: each connection has one request at a time.
    Closed { connections: usize },
}

impl Arrivals {
    /// Returns the initial and the maximum number of connections.
    pub fn connections(self) -> (usize, usize) {
        match self {
            Self::Open { max_connections, .. } => (1, max_connections.max(1)),
            Self::Closed { connections } => (connections.max(1), connections.max(1)),
        }
    }
}

#[derive(Debug)]
pub struct Schedule {
    pace: Pace,
    start: Instant,
    issued: u64,
}

impl Schedule {
    pub fn begin(pace: Pace) -> Self {
        Self { pace, start: Instant::now(), issued: 0 }
    }

    /// Returns the due time of the next request, or `None` if there are no more.
    pub fn issue_next(&mut self) -> Option<Instant> {
        if self.pace.max_requests.is_some_and(|most| self.issued >= most) {
            return None;
        }
        let after = match self.pace.arrivals {
            Arrivals::Open { per_second, .. } => offset(self.issued, per_second),
            Arrivals::Closed { .. } => self.start.elapsed(),
        };
        if after >= self.pace.duration {
            return None;
        }
        self.issued += 1;
        Some(self.start + after)
    }

    pub fn start(&self) -> Instant {
        self.start
    }

    pub fn end(&self) -> Instant {
        self.start + self.pace.duration
    }

    /// Returns the due times of all overdue requests that weren't sent.
    pub fn issue_overdue(&mut self) -> Vec<Instant> {
        let now = Instant::now();
        match self.pace.arrivals {
            Arrivals::Closed { .. } => Vec::new(),
            Arrivals::Open { .. } => std::iter::from_fn(|| self.issue_next()).take_while(|due| *due <= now).collect(),
        }
    }
}

fn offset(number: u64, per_second: f64) -> Duration {
    // No run has 2^53 requests or more, so the conversion is exact.
    #[expect(clippy::cast_precision_loss, reason = "request numbers stay far below 2^53")]
    let seconds = number as f64 / per_second.max(f64::MIN_POSITIVE);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
