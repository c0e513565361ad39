//! P10: the throughput of a replay of the whole log, and its effect on live requests.

use super::Bench;
use crate::report::LoadReport;
use anyhow::Context as _;
use serde::Serialize;
use std::fmt;

/// Rate limit of the slow replay, in events per second.
const GENTLE: u32 = 50_000;

/// The same live load alone, during a replay at full speed, and during a rate-limited replay.
#[derive(Debug, Serialize)]
pub(super) struct Replays {
    alone: LoadReport,
    beside: Vec<Replay>,
}

#[derive(Debug, Serialize)]
struct Replay {
    rate: Option<u32>,
    seconds: f64,
    events_per_second: f64,
    live: LoadReport,
}

impl Bench<'_> {
    /// Runs a live load with batch 1 at `per_second` events per second, alone and during replays. The oracle reports a violation if a
    /// replay changes a result.
    pub(super) async fn replays(&mut self, per_second: f64) -> anyhow::Result<Replays> {
        let alone = self.open("live, alone", per_second).await;
        let mut beside = Vec::new();
        for rate in [None, Some(GENTLE)] {
            let stage = self.stage;
            let (live, said) = tokio::join!(self.open("live, during a replay", per_second), stage.replay(rate));
            let (seconds, events_per_second) = last_word(&said?)?;
            beside.push(Replay { rate, seconds, events_per_second, live });
        }
        Ok(Replays { alone, beside })
    }
}

/// Parses the last line of a replay, such as `12.3 s, 250000 events/s`.
fn last_word(said: &str) -> anyhow::Result<(f64, f64)> {
    let figures = said.lines().rev().find_map(|line| {
        let (seconds, rate) = line.strip_suffix(" events/s")?.split_once(" s, ")?;
        Some((seconds.parse().ok()?, rate.parse().ok()?))
    });
    figures.with_context(|| format!("the replay printed no throughput: {said}"))
}

impl fmt::Display for Replays {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { alone, beside } = self;
        writeln!(f, "P10 live load alone, {:.0} events/s at batch 1: {}", alone.acked_events_per_second, alone.latency)?;
        for Replay { rate, seconds, events_per_second, live } in beside {
            let held = rate.map_or_else(|| "at full speed".to_owned(), |rate| format!("limited to {rate} events/s"));
            writeln!(f, "    replay {held}: {events_per_second:.0} events/s for {seconds:.1} s (target >= 300000)")?;
            writeln!(
                f,
                "    live load: {}; p99 x {:.2} (target <= 1.2)",
                live.latency,
                live.latency.p99_ms / alone.latency.p99_ms
            )?;
        }
        Ok(())
    }
}
