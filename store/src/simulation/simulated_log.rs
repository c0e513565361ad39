//! Simulates the log: partitions of records, each of which is an accepted request.

use crate::reference_model::{Facts, Spec};
use crate::report::{Home, Report};
use rand::RngExt;
use rand::rngs::StdRng;

/// One offset per partition.
pub(super) type Offsets = Vec<usize>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    pub(super) partition: usize,
    pub(super) offset: usize,
}

#[derive(Clone)]
pub(super) struct Record {
    pub(super) reports: Vec<Report<Facts>>,
}

impl Record {
    pub(super) fn month(&self) -> Home {
        Home::new(&self.reports[0].accepted)
    }
}

pub(super) struct Log {
    partitions: Vec<Vec<Record>>,
    /// Maximum number of observers per event in this schedule.
    pub(super) most_observers: usize,
}

impl Log {
    /// Generates reports that collide in every way: copies, ids that an observer reuses (also on other hosts), records accepted before
    /// their predecessors, and changes of the month.
    pub(super) fn generate(random: &mut StdRng) -> Self {
        let step_s = [1, 43_200, 12 * 86_400, 25 * 86_400][random.random_range(0..4)];
        let mut partitions = vec![Vec::new(); random.random_range(1..=2)];
        let (keys, observers) = (random.random_range(1..=3), random.random_range(1..=4));
        let mut specs: Vec<Spec> = Vec::new();
        for n in 0..random.random_range(6..=18_i64) {
            // Copies are sent again after a spill, so they are often accepted before their originals.
            let is_copy = !specs.is_empty() && random.random_bool(0.4);
            let is_late = random.random_bool(if is_copy { 0.6 } else { 0.2 });
            let accepted_s = (if is_late { n - random.random_range(0..=9) } else { n }).max(0) * step_s;
            let mut record: Vec<Spec> = Vec::new();
            for _ in 0..random.random_range(1..=3) {
                let spec = if is_copy { specs[random.random_range(0..specs.len())] } else { Self::spec(keys, observers, random) };
                record.push(Spec { accepted_s, ..spec });
            }
            let facts = specs.len() as Facts;
            let reports = record.iter().zip(facts..).map(|(spec, facts)| {
                let mut report = spec.report(facts);
                // Unique, so that two reports with one identity never have the same acceptance.
                report.accepted.place = facts as u16;
                report
            });
            let reports: Vec<Report<Facts>> = reports.collect();
            specs.extend(record);
            for _ in 0..if random.random_bool(0.1) { 2 } else { 1 } {
                let partition = random.random_range(0..partitions.len());
                partitions[partition].push(Record { reports: reports.clone() });
            }
        }
        Self { partitions, most_observers: if random.random_bool(0.5) { 2 } else { 4 } }
    }

    fn spec(keys: u8, observers: u8, random: &mut StdRng) -> Spec {
        let at_s = [0, 0, 0, -60, -3 * 86_400, 7_200][random.random_range(0..6)];
        let key = random.random_bool(0.85).then(|| random.random_range(0..keys));
        Spec { key, observer: random.random_range(0..observers), id: random.random_range(0..3), accepted_s: 0, at_s }
    }

    pub(super) fn record(&self, origin: Origin) -> &Record {
        &self.partitions[origin.partition][origin.offset]
    }

    /// Returns the records between two positions.
    pub(super) fn origins(from: &Offsets, to: &Offsets) -> impl Iterator<Item = Origin> {
        let ranges = from.iter().zip(to).enumerate();
        ranges.flat_map(|(partition, (from, to))| (*from..*to).map(move |offset| Origin { partition, offset }))
    }

    pub(super) fn start(&self) -> Offsets {
        vec![0; self.partitions.len()]
    }

    pub(super) fn end(&self) -> Offsets {
        self.partitions.iter().map(Vec::len).collect()
    }

    pub(super) fn reports(&self, from: &Offsets, to: &Offsets) -> impl Iterator<Item = (Origin, &Report<Facts>)> {
        Self::origins(from, to).flat_map(|origin| self.record(origin).reports.iter().map(move |report| (origin, report)))
    }
}

/// Returns the later of two positions in each partition.
pub(super) fn later(one: &Offsets, other: &Offsets) -> Offsets {
    one.iter().zip(other).map(|(one, other)| *one.max(other)).collect()
}
