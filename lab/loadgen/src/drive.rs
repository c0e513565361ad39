//! Sends requests at a given pace, reports them to the oracle and counts the outcomes.

mod schedule;
mod tally;

pub use schedule::{Arrivals, Pace, Schedule};
pub use tally::{Latencies, Tally, fate};

use crate::client::{Connection, Endpoint, Exchange};
use crate::oracle::{Fate, Oracle};
use crate::tenants::Tenant;
use crate::workload::{Generator, Plan, Shape};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Debug)]
pub struct RunContext {
    pub ingest: Endpoint,
    /// Tenants that the events are about, and their reporters' keys.
    pub tenants: Vec<Tenant>,
    pub shape: Shape,
    pub generator: Mutex<Generator>,
    pub oracle: Mutex<Oracle>,
    pub deadline: Duration,
    pub stop: CancellationToken,
}

#[derive(Debug)]
pub struct LoadResult {
    pub tally: Tally,
    /// Duration of the phase, without the wait for the last responses, which aren't counted as in time either.
    pub elapsed: Duration,
}

#[derive(Debug)]
struct LoadRun {
    course: Arc<RunContext>,
    schedule: Mutex<Schedule>,
    end: Instant,
    tally: Mutex<Tally>,
    /// Connections that wait for the next due time rather than for a response.
    waiting: AtomicUsize,
    connections: AtomicUsize,
    max_connections: usize,
    senders: TaskTracker,
}

/// Sends requests at `pace` until it ends.
pub async fn run_load(course: &Arc<RunContext>, pace: Pace) -> LoadResult {
    let (first, most) = pace.arrivals.connections();
    let schedule = Schedule::begin(pace);
    let (begun, end) = (schedule.start(), schedule.end());
    let run = Arc::new(LoadRun {
        course: Arc::clone(course),
        schedule: Mutex::new(schedule),
        end,
        tally: Mutex::default(),
        waiting: AtomicUsize::new(0),
        connections: AtomicUsize::new(0),
        max_connections: most,
        senders: TaskTracker::new(),
    });
    for _ in 0..first {
        run.add_connection();
    }
    run.senders.close();
    run.senders.wait().await;
    let elapsed = begun.elapsed().min(pace.duration).max(Duration::from_millis(1));
    let mut tally = std::mem::take(&mut *lock(&run.tally));
    tally.connections = run.connections.load(Ordering::Relaxed) as u64;
    for due in lock(&run.schedule).issue_overdue().into_iter().filter(|_| !course.stop.is_cancelled()) {
        tally.never_left += 1;
        tally.latency.record(end.saturating_duration_since(due));
    }
    LoadResult { tally, elapsed }
}

/// Locks a mutex, even if it is poisoned. Use it only for data that stays valid after a panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LoadRun {
    fn add_connection(self: &Arc<Self>) {
        let one_more = |connections| (connections < self.max_connections).then_some(connections + 1);
        if self.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return;
        }
        let run = Arc::clone(self);
        self.senders.spawn(async move { run.keep_sending().await });
    }

    async fn keep_sending(self: Arc<Self>) {
        let mut connection = Connection::new(self.course.ingest.clone(), self.course.deadline);
        while let Some(due) = self.next_due().await {
            self.send(&mut connection, due).await;
        }
    }

    /// Waits for the next due time. Opens a connection if none is waiting for the due time after that.
    async fn next_due(self: &Arc<Self>) -> Option<Instant> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let due = self.wait_for_due().await;
        let others_waiting = self.waiting.fetch_sub(1, Ordering::Relaxed) - 1;
        if due.is_some() && others_waiting == 0 {
            self.add_connection();
        }
        due
    }

    async fn wait_for_due(&self) -> Option<Instant> {
        if Instant::now() >= self.end {
            return None;
        }
        let due = lock(&self.schedule).issue_next()?;
        if due <= Instant::now() {
            // A timer would round up to the next millisecond, which would count as latency of the service.
            return (!self.course.stop.is_cancelled()).then_some(due);
        }
        tokio::select! {
            () = self.course.stop.cancelled() => None,
            () = sleep_until(due) => Some(due),
        }
    }

    async fn send(&self, connection: &mut Connection, due: Instant) {
        let course = &self.course;
        let plan = lock(&course.generator).next_plan();
        let tenant = &course.tenants[plan.tenant];
        let body = render(&course.shape, tenant, &plan);
        lock(&course.oracle).record_sent(&plan);
        let left = Instant::now();
        let exchange = connection.post("/events", &tenant.keys[plan.role], body).await;
        let now = Instant::now();
        let fate = fate(&exchange);
        lock(&course.oracle).record_fate(&plan, fate);
        if let Some(excess) = created_too_many(&exchange, &plan) {
            lock(&course.oracle).report_foreign(plan.tenant, excess);
        }
        let mut tally = lock(&self.tally);
        tally.add(&exchange, plan.items.len());
        if fate == Fate::Acked {
            tally.events_in_time += if now <= self.end { plan.items.len() as u64 } else { 0 };
            tally.latency.record(now - due);
            tally.service.record(now - left);
            let of_tenant = if plan.tenant == 0 { &mut tally.busiest } else { &mut tally.others };
            of_tenant.record(now - due);
        } else if matches!(&exchange, Exchange::Responded(_)) {
            tally.refusal.record(now - left);
        }
    }
}

fn render(shape: &Shape, tenant: &Tenant, plan: &Plan) -> Vec<u8> {
    let mut body = Vec::with_capacity(32 + plan.items.len() * 400);
    body.extend_from_slice(br#"{"events":["#);
    for (place, number) in plan.items.iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        shape.render(&mut body, plan.tenant, &tenant.domain, plan.role, *number);
    }
    body.extend_from_slice(b"]}");
    body
}

/// Returns an error if `events_created` exceeds the number of events in the request.
fn created_too_many(exchange: &Exchange, plan: &Plan) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Accepted {
        events_created: u64,
    }
    let Exchange::Responded(answer) = exchange else { return None };
    if !(200..300).contains(&answer.status) {
        return None;
    }
    match serde_json::from_slice::<Accepted>(&answer.body) {
        Ok(accepted) if accepted.events_created <= plan.items.len() as u64 => None,
        Ok(accepted) => Some(format!("events_created is {} for a request of {}", accepted.events_created, plan.items.len())),
        Err(_) => Some("a 2xx without events_created".to_owned()),
    }
}
