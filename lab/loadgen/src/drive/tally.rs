//! Counts and latencies of the requests of one phase.

use crate::client::Exchange;
use crate::oracle::Fate;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum recorded latency; longer ones are recorded as this.
const MAX_MICROS: u64 = 600_000_000;
/// Significant digits of latencies.
const DIGITS: u8 = 3;

#[derive(Debug, Default)]
pub struct Tally {
    pub requests: BTreeMap<Fate, u64>,
    /// Events by outcome. A repeat counts each time it is sent.
    pub events: BTreeMap<Fate, u64>,
    /// Events that were acknowledged before the phase ended.
    pub events_in_time: u64,
    /// Requests by status or error.
    pub answers: BTreeMap<String, u64>,
    /// Responses with 429 or 503 but without `Retry-After`.
    pub without_retry_after: u64,
    /// Requests that were due but not sent, because no connection became free before the end.
    pub never_left: u64,
    /// Connections that were opened. In an open loop, a connection is opened when all others are waiting for a response.
    pub connections: u64,
    /// Time from the due time to a 2xx. For requests that weren't sent, time from the due time to the end.
    pub latency: Latencies,
    /// Time from sending to a 2xx.
    pub service: Latencies,
    /// Time from sending to a rejection (4xx, 503).
    pub refusal: Latencies,
    /// [`Tally::latency`] of the busiest tenant.
    pub busiest: Latencies,
    /// [`Tally::latency`] of all other tenants.
    pub others: Latencies,
}

/// A histogram in microseconds.
#[derive(Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, MAX_MICROS, DIGITS).expect("the bounds are valid"))
    }
}

impl Latencies {
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(MAX_MICROS));
    }

    /// Returns the latency that this fraction (0 to 1) of the requests doesn't exceed.
    pub fn quantile(&self, part: f64) -> Duration {
        Duration::from_micros(self.0.value_at_quantile(part))
    }

    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.0.max())
    }

    pub fn count(&self) -> u64 {
        self.0.len()
    }
}

pub fn fate(exchange: &Exchange) -> Fate {
    match exchange {
        Exchange::Responded(answer) if (200..300).contains(&answer.status) => Fate::Acked,
        Exchange::Responded(answer) if (400..500).contains(&answer.status) => Fate::Refused,
        Exchange::NeverSent(_) => Fate::Refused,
        Exchange::Responded(_) | Exchange::Lost(_) => Fate::Unknown,
    }
}

impl Tally {
    /// Adds a request with `events` events.
    pub fn add(&mut self, exchange: &Exchange, events: usize) {
        let fate = fate(exchange);
        *self.requests.entry(fate).or_default() += 1;
        *self.events.entry(fate).or_default() += events as u64;
        match exchange {
            Exchange::Responded(answer) => {
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
