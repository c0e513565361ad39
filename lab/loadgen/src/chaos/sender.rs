//! Sends the operations to the gateways and reports the outcomes to the oracle. A request with a 5xx or without a response may have
//! arrived, so its outcome is unknown. Some of these are retried.

use super::cdn_log::CdnLog;
use super::operation_log::OperationLog;
use super::operations::{Kind, Operation, OperationGenerator};
use super::requests::Requests;
use crate::client::{Connection, Endpoint, Exchange};
use crate::drive::{fate, lock};
use crate::oracle::{Fate, Oracle, Rule};
use crate::tenants::Tenant;
use crate::workload::Shape;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

pub(super) const SENDERS: usize = 12;
const DEADLINE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
/// Maximum retries for an operation with an unknown outcome.
const MOST_RETRIES: u32 = 4;
const PACE_STEP: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct LoadState {
    pub(super) shape: Shape,
    pub(super) tenants: Vec<Tenant>,
    pub(super) gateways: Vec<Endpoint>,
    /// The CDN log, which is checked separately.
    pub(super) logs: Arc<CdnLog>,
    pub(super) oracle: Mutex<Oracle>,
    pub(super) campaign: Mutex<OperationGenerator>,
    pub(super) history: Arc<OperationLog>,
    pub(super) requests: Mutex<Requests>,
    /// Acknowledged events, including repeats.
    pub(super) acked: AtomicU64,
    pub(super) rate: f64,
    begun: Instant,
}

impl LoadState {
    pub(super) fn new(
        shape: Shape,
        tenants: Vec<Tenant>,
        gateways: Vec<Endpoint>,
        logs: Arc<CdnLog>,
        history: &Arc<OperationLog>,
        rate: f64,
    ) -> Arc<Self> {
        let names: Vec<String> = tenants.iter().map(|tenant| tenant.name.clone()).collect();
        Arc::new(Self {
            oracle: Mutex::new(Oracle::new(shape.clone(), names)),
            campaign: Mutex::new(OperationGenerator::new(shape.clone())),
            shape,
            tenants,
            gateways,
            logs,
            history: Arc::clone(history),
            requests: Mutex::default(),
            acked: AtomicU64::new(0),
            rate,
            begun: Instant::now(),
        })
    }

    pub(super) fn distinct_acked(&self) -> u64 {
        let oracle = lock(&self.oracle);
        (0..self.tenants.len()).map(|tenant| oracle.bounds(tenant).0.total).sum()
    }

    pub(super) async fn keep_sending(self: Arc<Self>, number: usize, stop: CancellationToken) {
        let mut random = StdRng::seed_from_u64(self.shape.seed ^ number as u64);
        let mut connections: Vec<Connection> =
            self.gateways.iter().map(|place| Connection::new(place.clone(), DEADLINE)).collect();
        while !stop.is_cancelled() {
            if self.is_ahead() {
                sleep(PACE_STEP).await;
                continue;
            }
            let operation = lock(&self.campaign).next();
            self.carry_out(&operation, &mut connections, &mut random).await;
        }
    }

    fn is_ahead(&self) -> bool {
        // The count is far below 2^53, so the conversion is exact.
        #[expect(clippy::cast_precision_loss, reason = "a pace needs no precision")]
        let acked = self.acked.load(Ordering::Relaxed) as f64;
        acked > self.rate * self.begun.elapsed().as_secs_f64()
    }

    async fn carry_out(&self, operation: &Operation, connections: &mut [Connection], random: &mut StdRng) {
        let body = operation.render(&self.shape, &self.tenants[operation.plan.tenant]);
        let key = &self.tenants[operation.sender()].keys[operation.plan.role];
        for attempt in 0..=MOST_RETRIES {
            let gateway = random.random_range(0..connections.len());
            if operation.kind == Kind::Valid {
                lock(&self.oracle).record_sent(&operation.plan);
            }
            let id = lock(&self.requests).begin(operation.plan.items.len() as u64);
            let exchange = connections[gateway].post_as("/events", key, &id, body.clone()).await;
            let fate = fate(&exchange);
            lock(&self.requests).record_fate(&id, fate);
            self.record_fate(operation, &exchange, fate);
            self.history.add(operation, gateway, &exchange, fate, attempt > 0);
            if matches!(exchange, Exchange::Responded(_)) && fate != Fate::Unknown {
                return;
            }
            sleep(PAUSE).await;
            // Always retry if the request wasn't sent because the gateway is down.
            if fate == Fate::Unknown && random.random_ratio(1, 3) {
                return;
            }
        }
    }

    fn record_fate(&self, operation: &Operation, exchange: &Exchange, fate: Fate) {
        let plan = &operation.plan;
        let mut oracle = lock(&self.oracle);
        match (operation.kind, fate) {
            (Kind::Valid, Fate::Refused) if is_a_judgement(exchange) => {
                oracle.record_fate(plan, fate);
                oracle.report_violation(
                    plan.tenant,
                    Rule::Lost,
                    format!("a valid request was rejected: {}", problem_text(exchange)),
                );
            }
            (Kind::Valid, _) => oracle.record_fate(plan, fate),
            (kind, Fate::Acked) => oracle.report_violation(plan.tenant, Rule::Phantom, format!("{kind:?} events were accepted")),
            _ => {}
        }
        if fate == Fate::Acked {
            self.acked.fetch_add(plan.items.len() as u64, Ordering::Relaxed);
        }
    }
}

/// Returns whether the request was rejected because of its content. 408 and 429 are about its timing.
fn is_a_judgement(exchange: &Exchange) -> bool {
    matches!(exchange, Exchange::Responded(answer) if !matches!(answer.status, 408 | 429))
}

fn problem_text(exchange: &Exchange) -> String {
    match exchange {
        Exchange::Responded(answer) => format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body)),
        Exchange::NeverSent(why) | Exchange::Lost(why) => (*why).to_owned(),
    }
}
