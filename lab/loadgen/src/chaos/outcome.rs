//! The result of a chaos run and its report.

use super::cdn_log::LogTotals;
use super::inject::Injected;
use super::operation_log::Counts;
use super::options::ChaosOptions;
use super::plan::Plan;
use super::read_counts::ReadCounts;
use super::reconcile::Sums;
use super::replays::Replayed;
use super::service_process::EndCounts;
use crate::Verdict;
use crate::oracle::{Fate, Violation};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) options: ChaosOptions,
    pub(super) plan: Plan,
    pub(super) took: Duration,
    pub(super) injected: Injected,
    pub(super) ends: Vec<EndCounts>,
    /// Servers that ended unexpectedly and were restarted, with the number of restarts.
    pub(super) revived: BTreeMap<String, u64>,
    pub(super) counts: Counts,
    pub(super) watched: ReadCounts,
    pub(super) acked: u64,
    pub(super) possible: u64,
    /// Time from the end of the last fault to the first read with new data.
    pub(super) resumed: Option<Duration>,
    /// Time from the end of all faults until all acknowledged events were readable.
    pub(super) quiesced: Option<Duration>,
    pub(super) violations: Vec<(Violation, u64)>,
    pub(super) logs: LogTotals,
    /// Result of the replays, if they finished.
    pub(super) replayed: Option<Replayed>,
    /// Where every event is, if that could be determined.
    pub(super) sums: Option<Sums>,
    /// Violations that didn't show up in a read.
    pub(super) wrong: Vec<String>,
}

impl Outcome {
    /// Records the sums, or their mismatch as a violation.
    pub(super) fn add_sums(&mut self, reconciled: anyhow::Result<Sums>) {
        match reconciled {
            Ok(sums) => self.sums = Some(sums),
            Err(error) => self.wrong.push(format!("the sums do not match: {error:#}")),
        }
    }

    /// Records the replays. Replaying stored data must not change it.
    pub(super) fn add_replays(&mut self, replayed: anyhow::Result<Replayed>) {
        match replayed {
            Ok(replayed) => {
                self.wrong.extend(replayed.wrong());
                self.replayed = Some(replayed);
            }
            Err(error) => self.wrong.push(format!("replays: {error:#}")),
        }
    }

    pub(super) fn add_log_totals(&mut self, logs: LogTotals, wrong: Vec<String>) {
        self.logs = logs;
        self.wrong.extend(wrong);
    }

    /// Returns `Clean` only if every check passed and everything that was required has happened.
    pub(super) fn verdict(&self) -> Verdict {
        let is_clean = self.violations.is_empty() && self.wrong.is_empty() && self.quiesced.is_some();
        if is_clean { Verdict::Clean } else { Verdict::Broken }
    }

    fn command(&self) -> String {
        let ChaosOptions { smoke, three_brokers, two_shards, outage, outage_seconds, .. } = &self.options;
        let flags = [(*smoke, " --smoke"), (*three_brokers, " --three-brokers"), (*two_shards, " --two-shards")];
        let flags: String = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect();
        let blows = match outage {
            Some(outage) => format!("--outage {} --outage-seconds {outage_seconds}", format!("{outage:?}").to_lowercase()),
            None => format!("--faults {}", self.options.faults()),
        };
        format!("cargo chaos --seed {} --events {} {blows}{flags}", self.plan.seed, self.options.events())
    }

    fn faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  faults      {} injected over {:.0} s", self.injected.count(), self.plan.length().as_secs_f64())?;
        let mut by_kind: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((kind, target), times) in &self.injected.done {
            by_kind.entry(kind).or_default().push(format!("{target} {times}"));
        }
        for (kind, targets) in by_kind {
            writeln!(f, "    {kind:<16} {}", targets.join(", "))?;
        }
        for unreached in &self.injected.unreached {
            writeln!(f, "    not reached: {unreached}")?;
        }
        Ok(())
    }

    fn ends(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |part: fn(&EndCounts) -> u64| self.ends.iter().map(part).sum::<u64>();
        let longest = self.ends.iter().map(|ends| ends.longest_stop).max().unwrap_or_default();
        writeln!(
            f,
            "  services    {} killed, {} died at a crash point, {} stopped by SIGTERM (the slowest took {:.2} s), {} starts \
             failed while a store was unavailable",
            sum(|ends| ends.killed),
            sum(|ends| ends.crashed),
            sum(|ends| ends.terminated),
            longest.as_secs_f64(),
            sum(|ends| ends.refused),
        )
    }

    fn operations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = |fate| self.counts.fates.get(&fate).copied().unwrap_or(0);
        writeln!(
            f,
            "  operations  {} ok, {} fail, {} unknown, {} of them retries with the same ids; {} that must be rejected",
            fate(Fate::Acked),
            fate(Fate::Refused),
            fate(Fate::Unknown),
            self.counts.retries,
            self.counts.bad
        )?;
        writeln!(f, "    {}", listed(&self.counts.answers))?;
        writeln!(f, "  events      {} distinct acknowledged, {} possible", self.acked, self.possible)?;
        writeln!(f, "  logs        {}", self.logs)
    }
}

fn listed<K: fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    counts.iter().map(|(what, times)| format!("{what} × {times}")).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (brokers, shards) = (self.options.brokers(), self.options.shards());
        let (seed, seconds) = (self.plan.seed, self.took.as_secs_f64());
        writeln!(f, "chaos: seed {seed}, {brokers} broker(s), {shards} shard(s), {seconds:.0} s")?;
        self.faults(f)?;
        self.ends(f)?;
        if !self.revived.is_empty() {
            writeln!(f, "  servers     ended unexpectedly and were restarted: {}", listed(&self.revived))?;
        }
        self.operations(f)?;
        let ReadCounts { checked, failed, rounds, .. } = &self.watched;
        writeln!(f, "  checks      {} responses in {rounds} rounds: {}", checked.values().sum::<u64>(), listed(checked))?;
        writeln!(f, "    failed during faults: {}", listed(failed))?;
        if let Some(resumed) = self.resumed {
            writeln!(f, "  resumed     {:.1} s after the end of the last fault", resumed.as_secs_f64())?;
        }
        match self.quiesced {
            Some(after) => writeln!(f, "  quiesced    {:.1} s after the end of the load", after.as_secs_f64())?,
            None => writeln!(f, "  quiesced    NEVER: acknowledged events are still missing")?,
        }
        if let Some(replayed) = &self.replayed {
            writeln!(f, "  replays     {replayed}")?;
        }
        if let Some(sums) = &self.sums {
            writeln!(f, "  adds up     {sums}")?;
        }
        for (violation, times) in &self.violations {
            writeln!(f, "  VIOLATION × {times}: {violation}")?;
        }
        for wrong in &self.wrong {
            writeln!(f, "  WRONG: {wrong}")?;
        }
        match self.verdict() {
            Verdict::Clean => {
                writeln!(f, "  verdict     CLEAN: no lost, phantom, double or foreign events, and all sums match")
            }
            Verdict::Broken => {
                writeln!(f, "  verdict     BROKEN; repeat it with: {}", self.command())?;
                write!(f, "{}", self.plan)
            }
        }
    }
}
