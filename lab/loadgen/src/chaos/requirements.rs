//! Checks that a run was complete: the plan and the load were carried out, enough reads succeeded, and the service recovered from an outage
//! in time. The data itself is checked by the oracle.

use super::inject::Injected;
use super::options::ChaosOptions;
use super::plan::Plan;
use super::read_counts::ReadCounts;
use super::read_loop::{TABLE, TAKEOVER};
use super::reader::SURFACES;
use std::collections::BTreeMap;
use std::time::Duration;

/// Percentage of a surface's reads that must succeed during faults. Stores are often unavailable, and rejecting a read is then correct.
const LEAST_ANSWERED: u64 = 10;
/// Maximum average time between two rounds of a reader. A round is about 20 sequential reads, each of which waits up to 10 seconds for an
/// unavailable store. On two cores with three brokers, a round takes 12 seconds.
const MOST_BETWEEN_ROUNDS: Duration = Duration::from_secs(30);
/// Percentage of crash points that must be reached.
const LEAST_REACHED: usize = 60;
/// Maximum time from a store's recovery to the first read with new data (C10).
const RESUME_LIMIT: Duration = Duration::from_secs(10);

/// A run's results, to be checked against the requirements.
#[derive(Clone, Copy)]
pub(super) struct Requirements<'a> {
    pub(super) options: &'a ChaosOptions,
    pub(super) plan: &'a Plan,
    pub(super) injected: &'a Injected,
    /// Reads until the load ended.
    pub(super) live: &'a ReadCounts,
    pub(super) acked: u64,
    pub(super) resumed: Option<Duration>,
    pub(super) is_stopped: bool,
}

impl Requirements<'_> {
    pub(super) fn unmet(&self) -> Vec<String> {
        let Self { options, plan, injected, acked, .. } = self;
        let mut unmet = Vec::new();
        if self.is_stopped {
            unmet.push("the run was stopped early".to_owned());
        }
        let (begun, planned) = (injected.count(), plan.faults.len() as u64);
        if begun < planned {
            unmet.push(format!("{begun} of {planned} faults were injected"));
        }
        let crashes = plan.faults.iter().filter(|fault| fault.kind.is_crash()).count();
        let reached = crashes.saturating_sub(injected.unreached.len());
        if reached * 100 < crashes * LEAST_REACHED {
            unmet.push(format!("{reached} of {crashes} crash points were reached"));
        }
        if *acked < options.events() {
            unmet.push(format!("{acked} of {} events were acknowledged", options.events()));
        }
        match options.outage {
            Some(_) => unmet.extend(self.late()),
            None => {
                unmet.extend(SURFACES.iter().chain([&TABLE, &TAKEOVER]).filter_map(|surface| self.unread(surface)));
                let due = plan.length().as_secs() / MOST_BETWEEN_ROUNDS.as_secs();
                if self.live.rounds < due {
                    unmet.push(format!("a reader made {} rounds, fewer than the required {due}", self.live.rounds));
                }
            }
        }
        unmet
    }

    fn unread(&self, surface: &str) -> Option<String> {
        let of = |counts: &BTreeMap<&'static str, u64>| counts.get(surface).copied().unwrap_or(0);
        let (answered, failed) = (of(&self.live.checked), of(&self.live.failed));
        let is_enough = answered > 0 && answered * 100 >= (answered + failed) * LEAST_ANSWERED;
        (!is_enough).then(|| format!("{surface}: only {answered} of {} reads succeeded", answered + failed))
    }

    fn late(&self) -> Option<String> {
        match self.resumed {
            Some(after) if after <= RESUME_LIMIT => None,
            Some(after) => Some(format!("the first new data was read {:.1} s after the store's return", after.as_secs_f64())),
            None => Some("no new data was read after the store's return".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::Fault;
    use clap::Parser;
    use tokio::time::Instant;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        options: ChaosOptions,
    }

    fn options(arguments: &[&str]) -> ChaosOptions {
        Typed::try_parse_from([&["chaos"], arguments].concat()).unwrap().options
    }

    /// Returns the result of a completely executed plan.
    fn injected(plan: &Plan) -> Injected {
        let done =
            plan.faults.iter().enumerate().map(|(number, fault): (usize, &Fault)| ((fault.kind.kind(), number.to_string()), 1));
        Injected { done: done.collect(), last_undone: Some(Instant::now()), ..Injected::default() }
    }

    fn live(answered: u64, failed: u64) -> ReadCounts {
        let of_all = |count| SURFACES.iter().chain([&TABLE, &TAKEOVER]).map(|surface| (*surface, count)).collect();
        ReadCounts { checked: of_all(answered), failed: of_all(failed), rounds: 1_000, ..ReadCounts::default() }
    }

    #[test]
    fn incomplete_runs_do_not_meet_the_requirements() {
        let options = options(&["--events", "15000", "--faults", "16"]);
        let plan = options.plan(7);
        let whole = injected(&plan);
        let (read, unread, none) = (live(40, 100), live(5, 100), live(0, 0));
        let demands = Requirements {
            options: &options,
            plan: &plan,
            injected: &whole,
            live: &read,
            acked: 15_000,
            resumed: None,
            is_stopped: false,
        };
        assert_eq!(demands.unmet(), [""; 0]);
        assert_eq!(Requirements { is_stopped: true, ..demands }.unmet(), ["the run was stopped early"]);
        assert_eq!(Requirements { acked: 14_999, ..demands }.unmet(), ["14999 of 15000 events were acknowledged"]);
        for live in [&unread, &none] {
            assert_eq!(Requirements { live, ..demands }.unmet().len(), SURFACES.len() + 2);
        }
        let slow = ReadCounts { rounds: plan.length().as_secs() / MOST_BETWEEN_ROUNDS.as_secs() - 1, ..read.clone() };
        assert_eq!(Requirements { live: &slow, ..demands }.unmet().len(), 1);
        let half = Injected { done: whole.done.clone().into_iter().take(8).collect(), ..Injected::default() };
        assert_eq!(Requirements { injected: &half, ..demands }.unmet(), ["8 of 16 faults were injected"]);
        let crashes: Vec<String> = plan.faults.iter().filter(|fault| fault.kind.is_crash()).map(ToString::to_string).collect();
        let uncrashed = Injected { unreached: crashes.clone(), ..whole.clone() };
        let unmet = Requirements { injected: &uncrashed, ..demands }.unmet();
        assert!(crashes.is_empty() || unmet == [format!("0 of {} crash points were reached", crashes.len())], "{unmet:?}");
    }

    #[test]
    fn outages_require_new_data_within_ten_seconds() {
        let options = options(&["--outage", "clickhouse", "--outage-seconds", "1"]);
        let plan = options.plan(7);
        let (whole, none) = (injected(&plan), live(0, 9));
        let unmet = |resumed| {
            let (options, plan, injected, live) = (&options, &plan, &whole, &none);
            Requirements { options, plan, injected, live, acked: 300, resumed, is_stopped: false }.unmet()
        };
        assert_eq!(unmet(Some(Duration::from_secs(9))), [""; 0]);
        assert_eq!(unmet(Some(Duration::from_secs(11))), ["the first new data was read 11.0 s after the store's return"]);
        assert_eq!(unmet(None), ["no new data was read after the store's return"]);
    }
}
