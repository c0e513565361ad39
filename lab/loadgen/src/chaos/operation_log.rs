//! Writes every operation and its outcome to a file that helps to explain violations, and counts them for the report.

use super::operations::{Kind, Operation};
use crate::client::Exchange;
use crate::drive::lock;
use crate::oracle::Fate;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Mutex;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct OperationLog {
    begun: Instant,
    file: Mutex<BufWriter<File>>,
    counts: Mutex<Counts>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) fates: BTreeMap<Fate, u64>,
    pub(super) answers: BTreeMap<String, u64>,
    /// Requests that were retried with the same ids.
    pub(super) retries: u64,
    pub(super) bad: u64,
}

impl OperationLog {
    pub(super) fn begin(folder: &Path) -> std::io::Result<Self> {
        let mut file = BufWriter::new(File::create(folder.join("history.tsv"))?);
        writeln!(file, "seconds\tgateway\ttenant\trole\tfirst\tevents\tkind\toutcome")?;
        Ok(Self { begun: Instant::now(), file: Mutex::new(file), counts: Mutex::default() })
    }

    /// Writes a line that is not an operation.
    pub(super) fn write_line(&self, line: &str) {
        // The run continues if the file can't be written. The counts don't depend on it.
        let _ = writeln!(lock(&self.file), "{:.3}\t{line}", self.begun.elapsed().as_secs_f64());
    }

    pub(super) fn add(&self, operation: &Operation, gateway: usize, exchange: &Exchange, fate: Fate, is_retry: bool) {
        let outcome = match exchange {
            Exchange::Responded(answer) => answer.status.to_string(),
            Exchange::NeverSent(why) | Exchange::Lost(why) => (*why).to_owned(),
        };
        let plan = &operation.plan;
        let (first, events) = (plan.items.first().copied().unwrap_or(0), plan.items.len());
        let (tenant, role, kind) = (plan.tenant, plan.role, operation.kind);
        self.write_line(&format!("{}\t{tenant}\t{role}\t{first}\t{events}\t{kind:?}\t{outcome}", gateway + 1));
        let mut counts = lock(&self.counts);
        *counts.answers.entry(outcome).or_default() += 1;
        counts.retries += u64::from(is_retry);
        match kind {
            Kind::Valid => *counts.fates.entry(fate).or_default() += 1,
            Kind::Invalid | Kind::WrongDomain => counts.bad += 1,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    pub(super) fn flush(&self) {
        let _ = lock(&self.file).flush();
    }
}
