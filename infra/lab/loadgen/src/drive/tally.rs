//! What came of the requests of one phase: counts, and latencies as histograms.

use crate::client::Exchange;
use crate::oracle::Fate;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest latency that is told apart.
const MAX_MICROS: u64 = 600_000_000;
/// Latencies are kept to three digits.
const DIGITS: u8 = 3;

#[derive(Debug, Default)]
pub struct Tally {
    pub requests: BTreeMap<Fate, u64>,
    /// Events of each fate; a repeat counts every time it is sent.
    pub events: BTreeMap<Fate, u64>,
    /// Events acked before the end of the phase.
    pub events_in_time: u64,
    /// Requests by status, or by what went wrong.
    pub answers: BTreeMap<String, u64>,
    /// Answers 429 and 503 that do not say when to try again.
    pub without_retry_after: u64,
    /// Requests that were due and never left, because no connection was free until the end.
    pub never_left: u64,
    /// Open loop: connections that were opened because all others waited for an answer.
    pub connections: u64,
    /// From the due time to a 2xx, and of requests that never left their age at the end.
    pub latency: Latencies,
    /// From sending to a 2xx.
    pub service: Latencies,
    /// From sending to a refusal (4xx, 503).
    pub refusal: Latencies,
    /// [`Tally::latency`] of the busiest tenant alone.
    pub busiest: Latencies,
    /// [`Tally::latency`] of all other tenants.
    pub others: Latencies,
}

/// A histogram of microseconds.
#[derive(Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, MAX_MICROS, DIGITS).expect("the bounds are valid"))
    }
}

impl Latencies {
    /// Adds one.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(MAX_MICROS));
    }

    /// The latency that this part of all, between 0 and 1, does not exceed.
    pub fn quantile(&self, part: f64) -> Duration {
        Duration::from_micros(self.0.value_at_quantile(part))
    }

    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.0.max())
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }
}

/// What an exchange means for its events.
pub fn fate(exchange: &Exchange) -> Fate {
    match exchange {
        Exchange::Answered(answer) if (200..300).contains(&answer.status) => Fate::Acked,
        Exchange::Answered(answer) if (400..500).contains(&answer.status) => Fate::Refused,
        Exchange::NeverSent(_) => Fate::Refused,
        Exchange::Answered(_) | Exchange::Lost(_) => Fate::Unknown,
    }
}

impl Tally {
    /// Adds one request that carried `events`.
    pub fn add(&mut self, exchange: &Exchange, events: usize) {
        let fate = fate(exchange);
        *self.requests.entry(fate).or_default() += 1;
        *self.events.entry(fate).or_default() += events as u64;
        match exchange {
            Exchange::Answered(answer) => {
                *self.answers.entry(answer.status.to_string()).or_default() += 1;
                let should_say = matches!(answer.status, 429 | 503);
                self.without_retry_after += u64::from(should_say && !answer.has_retry_after);
            }
            Exchange::NeverSent(why) | Exchange::Lost(why) => *self.answers.entry((*why).to_owned()).or_default() += 1,
        }
    }

    pub fn requests(&self, fate: Fate) -> u64 {
        self.requests.get(&fate).copied().unwrap_or(0)
    }

    pub fn events(&self, fate: Fate) -> u64 {
        self.events.get(&fate).copied().unwrap_or(0)
    }
}
