//! Delivers webhooks: sends what identity-api wrote to the outbox as signed POSTs, each at least once.
//!
//! ```text
//!  webhook_queue ── claim: a lease on what is due (queue) ──► lanes: limits per endpoint, per organization and in total
//!        ▲                                                        │
//!        │                                                        ▼
//!        └── finish: delivered, due again, or a dead letter ◄── attempt: sign, POST through the guard, ten seconds
//! ```
//!
//! Several deliverers can run at a time. A lease excludes other deliverers during an attempt. If its holder crashes, the lease expires and
//! the delivery is attempted again. Correctness doesn't depend on leases: every attempt has the same body and id, and receivers ignore
//! repeats. An attempt counts as one of the eight only if its outcome was stored.

mod attempt;
mod attempt_limits;
mod metrics;
mod queue;
mod queue_figures;

pub use metrics::METRICS;
pub use queue_figures::{DroppedFigures, QueueFigures};

use crate::serve_probes;
use attempt::Sender;
use attempt_limits::AttemptLimits;
use clap::Args;
use queue::Queue;
use schemas::ids::OrgId;
use service_kit::databases;
use service_kit::egress::Egress;
use service_kit::health::Probe;
use service_kit::metric_definitions;
use service_kit::roles::{self, Role};
use service_kit::secret_encryption::SecretsSettings;
use service_kit::settings::{PostgresSettings, ProcessSettings, WebhookSettings};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Pause between two polls of the queue.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Pause after an attempt ends, which makes room for another one.
const SHORT_PAUSE: Duration = Duration::from_millis(20);
/// Pause between two sweeps, which drop the deliveries of disabled endpoints.
const SWEEP: Duration = Duration::from_secs(30);
/// Time for running attempts to finish after a stop. Shorter than the time that a process has to stop.
const GRACE: Duration = Duration::from_secs(6);
/// Time for a running poll to finish after a stop. Leases whose response is lost stay unused until they expire.
const LAST_POLL_TIMEOUT: Duration = Duration::from_secs(1);

/// A deliverer's settings, without its listener.
#[derive(Args, Clone, Debug)]
pub struct DeliverSettings {
    /// The outbox
    #[command(flatten)]
    pub postgres: PostgresSettings,
    /// Key that decrypts the signing secrets
    #[command(flatten)]
    pub secrets: SecretsSettings,
    /// Permitted webhook targets
    #[command(flatten)]
    pub webhooks: WebhookSettings,
    /// Concurrency
    #[command(flatten)]
    pub pace: ConcurrencySettings,
}

/// Limits of concurrent deliveries.
#[derive(Args, Clone, Debug)]
pub struct ConcurrencySettings {
    /// Maximum concurrent webhook attempts; no organization can use more than are left for others
    #[arg(long, env = "TELEMETRY_DELIVERIES_AT_ONCE", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub deliveries_at_once: u32,
    /// Maximum concurrent attempts per endpoint; one for an endpoint that timed out
    #[arg(long, env = "TELEMETRY_DELIVERIES_PER_ENDPOINT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub deliveries_per_endpoint: u32,
    /// Seconds after which an attempt without a result is retried; an attempt takes up to 10
    #[arg(long, env = "TELEMETRY_DELIVERY_LEASE", default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(11..=3_600))]
    pub delivery_lease: u32,
}

impl Default for ConcurrencySettings {
    fn default() -> Self {
        Self { deliveries_at_once: 1024, deliveries_per_endpoint: 4, delivery_lease: 30 }
    }
}

/// Offset added to the database's clock, which determines what is due. Only tests set it. Several deliverers agree on the time, because
/// all of them use that clock.
#[derive(Clone, Debug, Default)]
pub struct ClockOffset(Arc<AtomicI64>);

impl ClockOffset {
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Returns the offset in microseconds.
    pub fn micros(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Delivers until `stop`, then gives running attempts six seconds to finish and releases the other leases.
pub async fn deliver(settings: &DeliverSettings, ahead: ClockOffset, stop: CancellationToken) -> anyhow::Result<()> {
    let (sealer, egress) = (settings.secrets.sealer()?, Egress::new(&settings.webhooks)?);
    let pool = databases::postgres(&settings.postgres)?;
    databases::check_postgres(&pool).await?;
    metric_definitions::register_metrics(METRICS);
    let lease = Duration::from_secs(settings.pace.delivery_lease.into());
    let queue = Queue { pool, ahead, lease };
    let sender = Sender { queue, egress, sealer };
    Deliverer { sender, limits: AttemptLimits::new(&settings.pace) }.run(stop).await;
    Ok(())
}

/// Runs [`deliver`] as a process, with `/health`, `/ready` and their OpenAPI document.
pub async fn run(process: &ProcessSettings, settings: &DeliverSettings, stop: CancellationToken) -> anyhow::Result<()> {
    if process.profile.is_production() {
        settings.postgres.harden()?;
        settings.webhooks.harden()?;
        settings.secrets.sealer()?;
        roles::reject_excess_privileges(&settings.postgres, Role::Deliverer).await?;
    }
    settings.webhooks.warn_if_open();
    let probes = vec![Probe::database(databases::postgres(&settings.postgres)?)];
    let serving = serve_probes(process, probes, stop.clone()).await?;
    tracing::info!(listen = %process.listen, "webhook delivery is listening");
    deliver(settings, ClockOffset::default(), stop).await?;
    serving.await.map_err(anyhow::Error::from)
}

struct Deliverer {
    sender: Sender,
    limits: AttemptLimits,
}

impl Deliverer {
    async fn run(self, stop: CancellationToken) {
        let mut attempts = JoinSet::new();
        let hurry = CancellationToken::new();
        // Run sweeps in their own task, because a sweep without a response from PostgreSQL must not delay deliveries. It ends with this
        // function.
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
                        () = async { stop.cancelled().await; sleep(LAST_POLL_TIMEOUT).await } => break,
                    }
                    next_look = Instant::now() + POLL_INTERVAL;
                }
            }
        }
        let all_ended = async { while attempts.join_next().await.is_some() {} };
        if timeout(GRACE, all_ended).await.is_err() {
            tracing::warn!(attempts = attempts.len(), "stopped before all attempts ended; they will be repeated");
            hurry.cancel();
            while attempts.join_next().await.is_some() {}
        }
    }

    /// Claims as many due deliveries as there is room for, and starts an attempt for each.
    async fn begin(&self, attempts: &mut JoinSet<()>, hurry: &CancellationToken) {
        let Some(room) = self.limits.capacity() else { return };
        let asked_at = Instant::now();
        let claimed = self.sender.queue.claim(&room).await;
        metrics::claimed(claimed.is_err());
        match claimed {
            Ok(claimed) => {
                for delivery in claimed {
                    let sender = self.sender.clone();
                    match self.limits.acquire(OrgId(delivery.organization_id), delivery.endpoint_id) {
                        Some(lane) => drop(attempts.spawn(sender.attempt(delivery, asked_at, lane, hurry.clone()))),
                        // Claimed deliveries fit, unless lanes were taken in the meantime.
                        None => drop(attempts.spawn(async move { sender.give_back(&delivery, Duration::ZERO).await })),
                    }
                }
            }
            Err(error) => tracing::warn!("failed to claim due deliveries, retrying: {error}"),
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
