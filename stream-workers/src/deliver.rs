//! Delivers webhooks: what identity-api has written to the outbox is sent as signed POSTs, each at least once.
//!
//! ```text
//!  webhook_queue ── claim: a lease on what is due (queue) ──► lanes: so many of an endpoint, of an organization and in all
//!        ▲                                                        │
//!        │                                                        ▼
//!        └── finish: delivered, due again, or a dead letter ◄── attempt: sign, POST through the guard, ten seconds
//! ```
//!
//! At least once, and several deliverers at a time: a lease keeps others away while an attempt runs, and when its holder dies
//! it runs out and somebody attempts again. Correctness does not rest on it: the body and its id are the same whoever sends
//! them, and receivers drop what they have seen. Only an attempt whose end was written counts as one of the eight.

mod attempt;
mod lanes;
mod metrics;
mod queue;
mod waiting;

pub use metrics::MEASURES;
pub use waiting::{Waiting, WithoutRoom};

use crate::serve_probes;
use attempt::Sender;
use clap::Args;
use lanes::Lanes;
use queue::Queue;
use schemas::ids::OrgId;
use service_kit::egress::Egress;
use service_kit::health::Probe;
use service_kit::measures;
use service_kit::roles::{self, Role};
use service_kit::sealing::SecretsSettings;
use service_kit::settings::{PostgresSettings, ProcessSettings, WebhookSettings};
use service_kit::stores;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Pause between two looks at the queue when nothing happens.
const PAUSE: Duration = Duration::from_millis(200);
/// The same once an attempt has ended: there is room again, and perhaps more to do.
const SHORT_PAUSE: Duration = Duration::from_millis(20);
/// Pause between two looks for deliveries whose endpoint was disabled.
const SWEEP: Duration = Duration::from_secs(30);
/// What attempts under way get to end after a stop was asked for; within what a stopping process has.
const GRACE: Duration = Duration::from_secs(6);
/// What a look that has begun gets to end then: leases whose taking nobody heard of are nobody's until they run out.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// What a deliverer needs besides a listener.
#[derive(Args, Clone, Debug)]
pub struct DeliverSettings {
    /// The outbox
    #[command(flatten)]
    pub postgres: PostgresSettings,
    /// What opens the secrets that sign
    #[command(flatten)]
    pub secrets: SecretsSettings,
    /// Where webhooks may go
    #[command(flatten)]
    pub webhooks: WebhookSettings,
    /// How much at a time
    #[command(flatten)]
    pub pace: Pace,
}

/// How much is delivered at a time.
#[derive(Args, Clone, Debug)]
pub struct Pace {
    /// Webhook attempts under way at a time; no organization has more than are left for all others
    #[arg(long, env = "TELEMETRY_DELIVERIES_AT_ONCE", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub deliveries_at_once: u32,
    /// The same to one endpoint; one that hangs gets one at a time
    #[arg(long, env = "TELEMETRY_DELIVERIES_PER_ENDPOINT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub deliveries_per_endpoint: u32,
    /// Seconds after which an attempt whose end nobody wrote counts as lost and is repeated; an attempt takes up to 10
    #[arg(long, env = "TELEMETRY_DELIVERY_LEASE", default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(11..=3_600))]
    pub delivery_lease: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { deliveries_at_once: 1024, deliveries_per_endpoint: 4, delivery_lease: 30 }
    }
}

/// How far time is taken to be ahead of the database's clock, which decides what is due: nothing, but in tests. Several
/// deliverers so agree on the time, whatever their machines think.
#[derive(Clone, Debug, Default)]
pub struct Ahead(Arc<AtomicI64>);

impl Ahead {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// How far it was moved, in microseconds.
    pub fn micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Delivers until `stop`, then gives attempts under way a while to end; what has not ended by then is given back.
pub async fn deliver(settings: &DeliverSettings, ahead: Ahead, stop: CancellationToken) -> anyhow::Result<()> {
    let (sealer, egress) = (settings.secrets.sealer()?, Egress::new(&settings.webhooks)?);
    let pool = stores::postgres(&settings.postgres)?;
    stores::check_postgres(&pool).await?;
    measures::announce(MEASURES);
    let lease = Duration::from_secs(settings.pace.delivery_lease.into());
    let queue = Queue { pool, ahead, lease };
    let sender = Sender { queue, egress, sealer };
    Deliverer { sender, lanes: Lanes::new(&settings.pace) }.run(stop).await;
    Ok(())
}

/// [`deliver`] as a process of its own, with `/health`, `/ready` and their OpenAPI document beside it.
pub async fn run(process: &ProcessSettings, settings: &DeliverSettings, stop: CancellationToken) -> anyhow::Result<()> {
    if process.profile.is_production() {
        settings.postgres.harden()?;
        settings.webhooks.harden()?;
        settings.secrets.sealer()?;
        roles::refuse_privileged(&settings.postgres, Role::Deliverer).await?;
    }
    settings.webhooks.warn_if_open();
    let probes = vec![Probe::database(stores::postgres(&settings.postgres)?)];
    let serving = serve_probes(process, probes, stop.clone()).await?;
    tracing::info!(listen = %process.listen, "stream-workers delivers webhooks");
    deliver(settings, Ahead::default(), stop).await?;
    serving.await.map_err(anyhow::Error::from)
}

struct Deliverer {
    sender: Sender,
    lanes: Lanes,
}

impl Deliverer {
    async fn run(self, stop: CancellationToken) {
        let mut attempts = JoinSet::new();
        let hurry = CancellationToken::new();
        // Beside the looks: one that PostgreSQL does not answer must keep no delivery. Ends with this function.
        let mut sweeps = JoinSet::new();
        sweeps.spawn(sweep(self.sender.queue.clone()));
        let mut next_look = Instant::now();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(_) = attempts.join_next() => next_look = next_look.min(Instant::now() + SHORT_PAUSE),
                () = sleep_until(next_look) => {
                    tokio::select! {
                        () = self.begin(&mut attempts, &hurry) => {}
                        () = async { stop.cancelled().await; sleep(LAST_LOOK).await } => break,
                    }
                    next_look = Instant::now() + PAUSE;
                }
            }
        }
        let all_ended = async { while attempts.join_next().await.is_some() {} };
        if timeout(GRACE, all_ended).await.is_err() {
            tracing::warn!(attempts = attempts.len(), "left before every receiver had answered; they are tried again");
            hurry.cancel();
            while attempts.join_next().await.is_some() {}
        }
    }

    /// Takes leases on what is due, as far as there is room, and begins an attempt for each.
    async fn begin(&self, attempts: &mut JoinSet<()>, hurry: &CancellationToken) {
        let Some(room) = self.lanes.room() else { return };
        let asked_at = Instant::now();
        let claimed = self.sender.queue.claim(&room).await;
        metrics::claimed(claimed.is_err());
        match claimed {
            Ok(claimed) => {
                for delivery in claimed {
                    let sender = self.sender.clone();
                    match self.lanes.enter(OrgId(delivery.organization_id), delivery.endpoint_id) {
                        Some(lane) => drop(attempts.spawn(sender.attempt(delivery, asked_at, lane, hurry.clone()))),
                        // What is claimed fits, unless lanes were taken since.
                        None => drop(attempts.spawn(async move { sender.give_back(&delivery, Duration::ZERO).await })),
                    }
                }
            }
            Err(error) => tracing::warn!("what is due cannot be found, asking again: {error}"),
        }
    }
}

async fn sweep(queue: Queue) {
    let mut sweeps = interval(SWEEP);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        sweeps.tick().await;
        queue.sweep().await;
    }
}
