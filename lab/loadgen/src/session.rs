//! A run: any number of loads with continuous reads, and the oracle's verdict at the end.

use crate::client::Endpoint;
use crate::drive::{Pace, RunContext, lock, run_load};
use crate::options::Conduct;
use crate::oracle::Oracle;
use crate::processes::ProcessMeter;
use crate::reads::{ReadTally, Reader};
use crate::report::{LoadReport, Machine, OracleReport, Report};
use crate::test_bed::TestBed;
use crate::workload::{Generator, Mix, Shape, Skew};
use service_kit::clock::Clock;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub struct Session {
    pub course: Arc<RunContext>,
    conduct: Conduct,
    machine: Machine,
    loads: Vec<LoadReport>,
    read_tally: Arc<Mutex<ReadTally>>,
    reading: JoinHandle<()>,
    stop_reading: CancellationToken,
}

#[derive(Clone, Copy, Debug)]
pub struct Workload {
    pub mix: Mix,
    /// Zipf exponent of the tenants' shares.
    pub skew: f64,
    /// Percentage of events that happened long ago.
    pub late_percent: u64,
}

impl Session {
    /// Sets the baseline to the stored data and starts the reads.
    pub async fn begin(stage: &TestBed, workload: Workload, conduct: &Conduct, stop: CancellationToken) -> anyhow::Result<Self> {
        let shape = Shape {
            seed: conduct.seed.unwrap_or_else(rand::random),
            run: rand::random(),
            started_at_ms: Clock::System.now().timestamp_millis(),
            late_percent: workload.late_percent,
            request_lengths: Vec::new(),
        };
        eprintln!("seed {} (repeat the workload with --seed {0})", shape.seed);
        let skew = Skew::new(stage.tenants.len(), workload.skew);
        let generator = Generator::new(shape.clone(), workload.mix, stage.tenants.len(), skew);
        let names: Vec<String> = stage.tenants.iter().map(|tenant| tenant.name.clone()).collect();
        let course = Arc::new(RunContext {
            ingest: stage.ingest.clone(),
            tenants: stage.tenants.clone(),
            generator: Mutex::new(generator),
            oracle: Mutex::new(Oracle::new(shape.clone(), names)),
            shape,
            deadline: conduct.timeout,
            stop,
        });
        let read_tally = Arc::default();
        let mut reader = Reader::new(&course, &stage.base, &read_tally);
        reader.take_baseline().await?;
        let stop_reading = CancellationToken::new();
        let reading = tokio::spawn(reader.keep_reading(conduct.read_every, stop_reading.clone()));
        let machine = Machine::now();
        Ok(Self { course, conduct: conduct.clone(), machine, loads: Vec::new(), read_tally, reading, stop_reading })
    }

    pub async fn load(&mut self, name: &str, stage: &TestBed, mix: Mix, pace: Pace) -> LoadReport {
        lock(&self.course.generator).set_mix(mix);
        eprintln!("{name}: {:.0?}", pace.duration);
        let watch = ProcessMeter::begin(&stage.measured_processes());
        let ridden = run_load(&self.course, pace).await;
        let report = LoadReport::from_result(name, &ridden, watch.end());
        self.loads.push(report.clone());
        report
    }

    pub fn loads(&self) -> &[LoadReport] {
        &self.loads
    }

    /// Waits until all acknowledged events are readable, then checks the last reads. No load may be running.
    pub async fn wait_and_check(&self, base: &Endpoint) -> Duration {
        eprintln!("waiting until all acknowledged events are readable");
        Reader::new(&self.course, base, &self.read_tally).wait_until_caught_up(self.conduct.quiesce).await
    }

    pub async fn end(self, base: &Endpoint) -> anyhow::Result<Report> {
        self.stop_reading.cancel();
        let took = self.wait_and_check(base).await;
        self.reading.await?;
        let oracle = lock(&self.course.oracle);
        let oracle = OracleReport::from_oracle(&oracle, self.course.tenants.len(), &lock(&self.read_tally), took);
        Ok(Report { seed: self.course.shape.seed, machine: self.machine, loads: self.loads, oracle })
    }
}
