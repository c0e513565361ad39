//! Reads during and after the load. The oracle checks the responses.

use crate::client::{Connection, Endpoint, Exchange};
use crate::drive::{Latencies, RunContext, lock};
use crate::oracle::Observed;
use schemas::summary_responses::Summary;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Pause between the final reads. A read costs the store as much as thousands of events.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// Pause before the last check, so that it detects events that are counted late.
const SECOND_LOOK: Duration = Duration::from_millis(1_500);

#[derive(Debug, Default)]
pub struct ReadTally {
    pub answered: u64,
    pub failed: u64,
    pub latency: Latencies,
}

#[derive(Debug)]
pub struct Reader {
    course: Arc<RunContext>,
    connection: Connection,
    tally: Arc<Mutex<ReadTally>>,
    window: String,
}

impl Reader {
    pub fn new(course: &Arc<RunContext>, base: &Endpoint, tally: &Arc<Mutex<ReadTally>>) -> Self {
        let window = format!("/content-owners/summary?since={}", course.shape.window_start());
        let connection = Connection::new(base.clone(), course.deadline);
        Self { course: Arc::clone(course), connection, tally: Arc::clone(tally), window }
    }

    /// Reads one tenant after another until `stop`.
    pub async fn keep_reading(mut self, pause: Duration, stop: CancellationToken) {
        for tenant in (0..self.course.tenants.len()).cycle() {
            self.check(tenant).await;
            tokio::select! {
                () = stop.cancelled() => return,
                () = sleep(pause) => {}
            }
        }
    }

    async fn check(&mut self, tenant: usize) {
        if let Some(observed) = self.summary(tenant).await {
            lock(&self.course.oracle).check_read(tenant, &observed);
        }
        if let Some(observed) = self.window(tenant).await {
            lock(&self.course.oracle).check_window(tenant, &observed);
        }
    }

    /// Sets the oracle's baseline to the data stored before the run.
    pub async fn take_baseline(&mut self) -> anyhow::Result<()> {
        for tenant in 0..self.course.tenants.len() {
            let stored = self.summary(tenant).await;
            let name = &self.course.tenants[tenant].name;
            let stored = stored.ok_or_else(|| anyhow::anyhow!("{name}: /content-owners/summary does not return 200"))?;
            lock(&self.course.oracle).set_baseline(tenant, &stored);
        }
        Ok(())
    }

    /// Waits at most `patience` until all acknowledged events of every tenant are readable, then checks the last reads. Returns how long it
    /// waited.
    pub async fn wait_until_caught_up(&mut self, patience: Duration) -> Duration {
        let begun = Instant::now();
        for tenant in 0..self.course.tenants.len() {
            while begun.elapsed() < patience && !self.course.stop.is_cancelled() {
                let observed = self.summary(tenant).await;
                if observed.is_some_and(|observed| lock(&self.course.oracle).is_caught_up(tenant, &observed)) {
                    break;
                }
                sleep(ASK_AGAIN).await;
            }
        }
        let took = begun.elapsed();
        sleep(SECOND_LOOK).await;
        for tenant in 0..self.course.tenants.len() {
            match (self.summary(tenant).await, self.window(tenant).await) {
                (Some(observed), Some(window)) => lock(&self.course.oracle).check_last_read(tenant, &observed, &window),
                // Without a response, the oracle can't confirm that everything is correct.
                _ => lock(&self.course.oracle).report_foreign(tenant, "the last read did not return 200".to_owned()),
            }
        }
        took
    }

    async fn summary(&mut self, tenant: usize) -> Option<Observed> {
        self.request(tenant, "/content-owners/summary").await
    }

    async fn window(&mut self, tenant: usize) -> Option<Observed> {
        let path = self.window.clone();
        self.request(tenant, &path).await
    }

    async fn request(&mut self, tenant: usize, path: &str) -> Option<Observed> {
        let begun = Instant::now();
        let course = Arc::clone(&self.course);
        let whose = &course.tenants[tenant];
        let exchange = self.connection.get(path, &whose.owner_key).await;
        let mut tally = lock(&self.tally);
        let Exchange::Responded(answer) = exchange else {
            tally.failed += 1;
            return None;
        };
        if answer.status != 200 {
            tally.failed += 1;
            return None;
        }
        tally.answered += 1;
        tally.latency.record(begun.elapsed());
        drop(tally);
        let mut oracle = lock(&course.oracle);
        let Ok(summary) = serde_json::from_slice::<Summary>(&answer.body) else {
            oracle.report_foreign(tenant, "invalid summary".to_owned());
            return None;
        };
        if whose.owner.is_some_and(|owner| owner != summary.organization_id) {
            oracle.report_foreign(tenant, format!("the summary is about organization {}", summary.organization_id));
        }
        if !summary.domains.contains(&whose.domain) {
            oracle.report_foreign(tenant, format!("the summary is about {}", summary.domains.join(", ")));
        }
        Some(Observed::from_summary(&summary))
    }
}
