//! What was done and what came of it, line by line in a file, with counts for the report.
//!
//! Must hold every operation: a violation is explained from here.

use super::campaign::{Kind, Operation};
use crate::client::Exchange;
use crate::drive::lock;
use crate::oracle::Fate;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Mutex;
use tokio::time::Instant;

/// The file and the counts.
#[derive(Debug)]
pub(super) struct History {
    begun: Instant,
    file: Mutex<BufWriter<File>>,
    counts: Mutex<Counts>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Requests of good events by fate.
    pub(super) fates: BTreeMap<Fate, u64>,
    /// Requests by answer, or by what went wrong.
    pub(super) answers: BTreeMap<String, u64>,
    /// Requests sent again with the same ids.
    pub(super) retries: u64,
    /// Requests that had to be refused.
    pub(super) bad: u64,
}

impl History {
    pub(super) fn begin(folder: &Path) -> std::io::Result<Self> {
        let mut file = BufWriter::new(File::create(folder.join("history.tsv"))?);
        writeln!(file, "seconds\tgateway\ttenant\trole\tfirst\tevents\tkind\toutcome")?;
        Ok(Self { begun: Instant::now(), file: Mutex::new(file), counts: Mutex::default() })
    }

    /// Writes a line that is no operation.
    pub(super) fn note(&self, line: &str) {
        // a history that cannot be written must not end the run; the counts are kept elsewhere
        let _ = writeln!(lock(&self.file), "{:.3}\t{line}", self.begun.elapsed().as_secs_f64());
    }

    /// An operation has come to its end.
    pub(super) fn add(&self, operation: &Operation, gateway: usize, exchange: &Exchange, fate: Fate, is_retry: bool) {
        let outcome = match exchange {
            Exchange::Answered(answer) => answer.status.to_string(),
            Exchange::NeverSent(why) | Exchange::Lost(why) => (*why).to_owned(),
        };
        let plan = &operation.plan;
        let (first, events) = (plan.items.first().copied().unwrap_or(0), plan.items.len());
        let (tenant, role, kind) = (plan.tenant, plan.role, operation.kind);
        self.note(&format!("{}\t{tenant}\t{role}\t{first}\t{events}\t{kind:?}\t{outcome}", gateway + 1));
        let mut counts = lock(&self.counts);
        *counts.answers.entry(outcome).or_default() += 1;
        counts.retries += u64::from(is_retry);
        match kind {
            Kind::Good => *counts.fates.entry(fate).or_default() += 1,
            Kind::Faulty | Kind::Trespassing => counts.bad += 1,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    /// Puts everything into the file.
    pub(super) fn flush(&self) {
        let _ = lock(&self.file).flush();
    }
}
