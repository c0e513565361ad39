//! When requests are due.
//!
//! In an open loop the k-th request is due at start + k × interval whatever the service does, and its latency counts
//! from there: a stall is charged to every request that it held up (no coordinated omission). In a closed loop a
//! request is due when the one before it on the same connection was answered.

use std::time::Duration;
use tokio::time::Instant;

/// How requests arrive, and when that ends.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub arrivals: Arrivals,
    /// Nothing becomes due after this.
    pub duration: Duration,
    /// At most this many requests.
    pub max_requests: Option<u64>,
}

/// Who decides when the next request leaves.
#[derive(Clone, Copy, Debug)]
pub enum Arrivals {
    /// The clock: so many requests a second.
    Open {
        /// Requests a second.
        per_second: f64,
        /// Connections at most; a request that finds none waits, and its wait counts.
        max_connections: usize,
    },
    /// The service: so many connections, each with one request at a time.
    Closed { connections: usize },
}

impl Arrivals {
    /// Connections to begin with, and at most.
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
    taken: u64,
}

impl Schedule {
    /// A schedule that begins now.
    pub fn begin(pace: Pace) -> Self {
        Self { pace, start: Instant::now(), taken: 0 }
    }

    /// When the next request is due; none when there is none to come.
    pub fn take(&mut self) -> Option<Instant> {
        if self.pace.max_requests.is_some_and(|most| self.taken >= most) {
            return None;
        }
        let after = match self.pace.arrivals {
            Arrivals::Open { per_second, .. } => offset(self.taken, per_second),
            Arrivals::Closed { .. } => self.start.elapsed(),
        };
        if after >= self.pace.duration {
            return None;
        }
        self.taken += 1;
        Some(self.start + after)
    }

    pub fn start(&self) -> Instant {
        self.start
    }

    /// When nothing more becomes due.
    pub fn end(&self) -> Instant {
        self.start + self.pace.duration
    }

    /// Takes every request that was due by now and never left, with its due time.
    pub fn take_overdue(&mut self) -> Vec<Instant> {
        let now = Instant::now();
        match self.pace.arrivals {
            Arrivals::Closed { .. } => Vec::new(),
            Arrivals::Open { .. } => std::iter::from_fn(|| self.take()).take_while(|due| *due <= now).collect(),
        }
    }
}

fn offset(number: u64, per_second: f64) -> Duration {
    // 2^53 requests are enough for every run
    #[expect(clippy::cast_precision_loss, reason = "request numbers stay far below 2^53")]
    let seconds = number as f64 / per_second.max(f64::MIN_POSITIVE);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
