//! The plan of a chaos run, drawn from a seed.
//!
//! It depends only on the seed and the options, not on the clock or the run. Every kind of fault occurs once before any occurs again.

use super::fault::{Fault, FaultKind, Target, WORKERS};
use super::proxy::Mode;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

pub(super) const GATEWAYS: usize = 2;
pub(super) const QUERIES: usize = 2;

/// Time of the first fault, after the load has started.
const FIRST: Duration = Duration::from_millis(1_500);
/// Milliseconds between the starts of two faults. Often shorter than a fault, because faults must overlap.
const GAPS_MS: std::ops::Range<u64> = 500..4_500;
const LASTS_MS: std::ops::Range<u64> = 200..5_000;
/// Time for a store or a service to recover before its next fault.
const STORE_RECOVERY: Duration = Duration::from_secs(9);
const SERVICE_RECOVERY: Duration = Duration::from_secs(4);

/// Crash points, and the highest pass count at which they fire. The ones for retention are missing, because gateways don't accept events in
/// months that expire.
const WORKER_POINTS: [(&str, u64); 7] = [
    ("after_sites", 3),
    ("after_reports", 3),
    ("after_events_first", 3),
    ("after_events", 3),
    ("after_failed_fetches", 3),
    ("after_progress", 3),
    ("before_replay", 2),
];
const GATEWAY_POINTS: [(&str, u64); 5] = [
    ("after_ack_before_answer", 20),
    ("spill_half_written", 10),
    ("spill_before_fsync", 10),
    ("spill_after_fsync", 10),
    ("drained_before_release", 3),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Outage {
    /// Kafka brokers (C9)
    Broker,
    /// ClickHouse (C10)
    Clickhouse,
    /// PostgreSQL (C11)
    Postgres,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    pub faults: Vec<Fault>,
}

impl Plan {
    pub fn new(seed: u64, faults: usize, brokers: usize, shards: usize) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let (mut deck, mut plan, mut at) = (Vec::new(), Vec::with_capacity(faults), FIRST);
        let mut free_at: BTreeMap<Target, Duration> = BTreeMap::new();
        while plan.len() < faults {
            if deck.is_empty() {
                deck = whole_deck(&mut random, brokers, shards);
            }
            let is_free = |target: Target| free_at.get(&target.lane()).is_none_or(|free| *free <= at);
            let Some(place) = deck.iter().rposition(|(target, _)| is_free(*target)) else {
                at += Duration::from_millis(GAPS_MS.start);
                continue;
            };
            let (target, kind) = deck.remove(place);
            let lasts = Duration::from_millis(random.random_range(LASTS_MS));
            let fault = Fault { at, target, kind, lasts };
            let recovery = if target.is_store() { STORE_RECOVERY } else { SERVICE_RECOVERY };
            let mut spare = |lane: Target, recovery: Duration| {
                let free = free_at.entry(lane).or_default();
                *free = (at + lasts + recovery).max(*free);
            };
            spare(target.lane(), recovery);
            if kind.needs_spill() {
                spare(Target::Broker(0), STORE_RECOVERY);
            }
            if let Some(server) = target.server_of_worker().filter(|_| kind == FaultKind::Kill) {
                spare(server, SERVICE_RECOVERY);
            }
            plan.push(fault);
            at += Duration::from_millis(random.random_range(GAPS_MS));
        }
        Self { seed, faults: plan }
    }

    /// Returns a plan with a single long outage of a store.
    pub fn outage(seed: u64, outage: Outage, lasts: Duration) -> Self {
        let (target, kind) = match outage {
            Outage::Broker => (Target::Broker(0), FaultKind::Kill),
            Outage::Clickhouse => (Target::ClickHouse(0), FaultKind::Kill),
            Outage::Postgres => (Target::Postgres, FaultKind::Pause),
        };
        Self { seed, faults: vec![Fault { at: FIRST * 4, target, kind, lasts }] }
    }

    /// Returns the planned end of the last fault.
    pub fn length(&self) -> Duration {
        self.faults.iter().map(|fault| fault.at + fault.lasts).max().unwrap_or_default()
    }
}

/// Returns every kind of fault once, in random order.
fn whole_deck(random: &mut StdRng, brokers: usize, shards: usize) -> Vec<(Target, FaultKind)> {
    let gateway = Target::Gateway(random.random_range(0..GATEWAYS));
    let workers = 0..WORKERS * shards;
    let stores = (0..brokers).map(Target::Broker).chain((0..shards).map(Target::ClickHouse)).chain([Target::Postgres]);
    let stores: Vec<Target> = stores.collect();
    let mut deck: Vec<_> = (0..QUERIES).map(|number| (Target::Query(number), FaultKind::Kill)).collect();
    for target in [gateway].into_iter().chain(workers.clone().map(Target::Worker)).chain(stores.iter().copied()) {
        deck.extend([FaultKind::Kill, FaultKind::Pause, FaultKind::Terminate].map(|kind| (target, kind)));
    }
    for target in stores {
        deck.extend(Mode::all_faults(random).map(|mode| (target, FaultKind::Link(mode))));
    }
    let crash = |random: &mut StdRng, (point, latest)| FaultKind::CrashAt(point, random.random_range(1..=latest));
    for point in WORKER_POINTS {
        deck.push((Target::Worker(random.random_range(workers.clone())), crash(random, point)));
    }
    for point in GATEWAY_POINTS {
        deck.push((Target::Gateway(random.random_range(0..GATEWAYS)), crash(random, point)));
    }
    deck.shuffle(random);
    deck
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "schedule of seed {}:", self.seed)?;
        self.faults.iter().zip(1..).try_for_each(|(fault, number)| writeln!(f, "  {number:>4} {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn same_seed_produces_same_plan() {
        let of = |seed, faults| Plan::new(seed, faults, 1, 1);
        assert_eq!(of(1, 200), of(1, 200));
        assert_ne!(of(1, 200).faults, of(2, 200).faults);
        assert_eq!(of(1, 200).faults[..16], of(1, 16).faults, "a shorter plan is a prefix of a longer one");
    }

    #[test]
    fn faults_of_a_lane_never_overlap() {
        for (seed, brokers, shards) in (0..20).flat_map(|seed| [(seed, 1, 1), (seed, 3, 1), (seed, 1, 2)]) {
            let plan = Plan::new(seed, 200, brokers, shards);
            for (place, fault) in plan.faults.iter().enumerate() {
                let earlier = plan.faults[..place].iter().filter(|earlier| earlier.target.lane() == fault.target.lane());
                assert!(earlier.clone().all(|earlier| earlier.at + earlier.lasts < fault.at), "seed {seed}: {fault}");
            }
            let kinds: BTreeSet<_> = plan.faults.iter().map(|fault| fault.kind.kind()).collect();
            assert_eq!(kinds.len(), 11, "seed {seed}: {kinds:?}");
            let struck: BTreeSet<_> = plan.faults.iter().map(|fault| fault.target).collect();
            assert_eq!(struck.len(), GATEWAYS + WORKERS * shards + QUERIES + brokers + shards + 1, "seed {seed}: {struck:?}");
        }
    }

    /// While a shard recovers, another one may be faulty.
    #[test]
    fn faults_of_shards_overlap() {
        let plan = Plan::new(7, 200, 1, 2);
        let of = |lane: Target| plan.faults.iter().filter(move |fault| fault.target.lane() == lane);
        let overlaps = |one: &Fault, other: &Fault| one.at < other.at + other.lasts && other.at < one.at + one.lasts;
        for [first, second] in [[Target::ClickHouse(0), Target::ClickHouse(1)], [Target::Worker(0), Target::Worker(WORKERS)]] {
            assert!(of(first).any(|one| of(second).any(|other| overlaps(one, other))), "{first} and {second}");
        }
        let killed = plan.faults.iter().filter(|fault| fault.kind == FaultKind::Kill);
        for worker in killed.filter(|fault| matches!(fault.target, Target::Worker(_))) {
            let server = worker.target.server_of_worker().unwrap();
            let is_spared = |other: &Fault| other.at < worker.at || worker.at + worker.lasts <= other.at;
            assert!(of(server).all(is_spared), "{worker}: its server must have no fault");
        }
    }

    /// Collects the names of crash points from a folder with source files.
    fn points_in(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                points_in(&entry, found);
                continue;
            }
            let text = std::fs::read_to_string(&entry).unwrap();
            let quoted = text.split("(\"").skip(1).filter_map(|rest| rest.split_once('"')).map(|(name, _)| name);
            found.extend(quoted.filter(|name| name.starts_with("after_") || name.starts_with("before_")).map(str::to_owned));
        }
    }

    #[test]
    fn plans_every_worker_crash_point_except_retention() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stream-workers/src");
        let mut found = BTreeSet::new();
        points_in(&sources, &mut found);
        let of_retention = ["after_drop", "after_divided_reports", "after_divided_events"];
        let known: BTreeSet<String> =
            WORKER_POINTS.iter().map(|(name, _)| *name).chain(of_retention).map(str::to_owned).collect();
        assert_eq!(found, known);
    }
}
