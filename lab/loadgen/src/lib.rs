//! Load generator for the service, with an oracle that checks every response against what was sent.
//!
//! ```text
//!  options ──► test_bed ──► a stack, tenants, processes to measure
//!                 │
//!  workload ──► drive ──► client ──► POST /events        requests and their responses ──► oracle
//!                 │                                                                          ▲
//!               reads ──► client ──► GET /content-owners/summary ──── all responses ─────────┘
//!                 │
//!            processes ──► report ──► lines, JSON
//! ```
//!
//! A session has one oracle and any number of loads: `run` has one load, `bench` a fixed list. Chaos tests disturb the stack during a load
//! and use the same oracle.

pub mod bench;
pub mod chaos;
pub mod client;
pub mod drains;
pub mod drive;
pub mod linear;
pub mod log_lines;
pub mod options;
pub mod oracle;
pub mod processes;
pub mod read_bench;
pub mod reads;
pub mod report;
pub mod session;
pub mod test_bed;
pub mod tenants;
pub mod workload;

use options::{Cli, Command, RunOptions};
use session::{Session, Workload};
use test_bed::TestBed;
use tokio_util::sync::CancellationToken;

/// Whether all responses followed the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Clean,
    /// At least one response broke a rule.
    Broken,
}

/// A second thread injects faults even while a sender is busy.
const CHAOS_THREADS: usize = 2;

impl Cli {
    pub fn threads(&self) -> usize {
        match &self.command {
            Command::Run(options) => &options.conduct,
            Command::Bench(options) => &options.conduct,
            Command::Reads(_) | Command::Linear(_) | Command::Drains(_) => return 1,
            Command::Chaos(_) => return CHAOS_THREADS,
        }
        .threads
        .max(1)
    }
}

/// Runs the command. `stop` ends loads early. Everything sent until then is still checked.
pub async fn run(cli: &Cli, stop: CancellationToken) -> anyhow::Result<Verdict> {
    match &cli.command {
        Command::Run(options) => run_once(options, stop).await,
        Command::Bench(options) => bench::run(options, stop).await,
        Command::Reads(options) => read_bench::run(options, stop).await,
        Command::Linear(options) => {
            linear::run(options);
            Ok(Verdict::Clean)
        }
        Command::Drains(options) => drains::run(options).await,
        Command::Chaos(options) => chaos::run(options, stop).await,
    }
}

async fn run_once(options: &RunOptions, stop: CancellationToken) -> anyhow::Result<Verdict> {
    let mut test_bed = TestBed::find_or_start(&options.place, usize::from(options.load.tenants)).await?;
    test_bed.add_workers().await?;
    let load = &options.load;
    let workload = Workload { mix: load.mix(), skew: load.skew, late_percent: u64::from(load.late) };
    let mut session = Session::begin(&test_bed, workload, &options.conduct, stop).await?;
    session.load("load", &test_bed, load.mix(), load.pace()).await;
    let report = session.end(&test_bed.base).await?;
    println!("{report}");
    report::write_json(&report, options.conduct.json.as_deref())?;
    let verdict = report.oracle.verdict();
    test_bed.tear_down(verdict == Verdict::Broken).await?;
    Ok(verdict)
}
