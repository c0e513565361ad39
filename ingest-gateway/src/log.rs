//! Writes one record per accepted request and makes it durable before the 2xx: acknowledged by every in-sync replica or, if that
//! takes too long, fsynced in the spill.
//!
//! ```text
//!  append ── breaker closed, budget left ──► link (producer) ──► acknowledged within ACK_PATIENCE ──► 2xx
//!     │                                           ▲                     │ no, or an error: the breaker opens
//!     └── breaker open, budget used up ──► spill ─┼─ fsync ─────────────┴─ fsync ───────────────────► 2xx
//!                                            └─► drain: in order, many in flight; an acknowledgement closes the breaker
//! ```
//!
//! A record that was both sent and spilled may be on the log twice, which is harmless because events are counted by key. A record that the
//! log can never accept is rejected, not spilled. If the spill is full or its disk fails, the response is an immediate 503.

mod append_or_spill;
mod breaker;
mod in_flight_budget;
mod spill_drain;
mod log_producer;
mod message;
mod durability_settings;
mod spill;

pub use durability_settings::Durability;
pub(crate) use message::too_large as record_too_large;

use breaker::Breaker;
use in_flight_budget::Budget;
use log_producer::LogProducer;
pub use message::Message;
use schemas::log::LogRecord;
use service_kit::health::{PROBE_DEADLINE, Probe};
use service_kit::http::ApiError;
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use service_kit::slots::{Pool, Slots};
use spill::Spill;
use spill_drain::SpillDrain;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Time to wait for an acknowledgement before the record is also written to the spill.
const ACK_PATIENCE: Duration = Duration::from_secs(1);
/// Time a starting gateway waits for the brokers before it starts without them.
const START_PATIENCE: Duration = Duration::from_secs(3);
/// Time a stopping gateway waits for unacknowledged records. This is best effort: all requests have their responses by then, and these
/// records were not confirmed with a 2xx.
const FLUSH_DEADLINE: Duration = Duration::from_millis(300);
/// Size of the record that must fit for the spill to count as having room.
const ROOM: usize = 64 * 1024;

#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    producer: Arc<LogProducer>,
    breaker: Arc<Breaker>,
    spill: Option<Spill>,
    in_progress: Arc<Slots>,
    stop: CancellationToken,
    _stop_when_dropped: DropGuard,
}

impl Log {
    /// Opens the spill, starts draining it, and fails if the topic has the wrong configuration. If no broker responds, the gateway still
    /// starts with a spill: it spills everything, checks the topic once a broker responds, and sends nothing until the topic is correct.
    /// Meanwhile `/ready` fails and the log names the fix.
    pub async fn connect(settings: &KafkaSettings, durability: &Durability) -> anyhow::Result<Self> {
        let opened = durability.spill_folder().map(|folder| Spill::open(&folder, durability.spill_max_bytes)).transpose()?;
        let (spill, backlog) = opened.unzip();
        let is_checked = match brokers_answer(settings).await? {
            true => kafka::check_topics(settings).await.map(|()| true)?,
            false => false,
        };
        anyhow::ensure!(
            is_checked || spill.is_some(),
            "KAFKA_BROKERS={}: no broker responds, and TELEMETRY_SPILL_MAX_BYTES=0 disables the spill; start one or correct the address",
            settings.kafka_brokers
        );
        let breaker = Arc::new(Breaker::new(is_checked));
        let budget = Budget::new(durability.max_unacked_bytes);
        let link = Arc::new(LogProducer::new(settings, Arc::clone(&breaker), budget)?);
        let stop = CancellationToken::new();
        SpillDrain::new(Arc::clone(&link), Arc::clone(&breaker), settings.clone()).start(backlog, stop.clone());
        Ok(Self(Arc::new(Inner {
            producer: link,
            breaker,
            spill,
            in_progress: Slots::new(Pool::Writes, durability.max_in_progress),
            _stop_when_dropped: stop.clone().drop_guard(),
            stop,
        })))
    }

    /// Encodes a record for the log. Returns 413 if it is too large.
    pub fn message(&self, record: &LogRecord, request_id: &str) -> Result<Message, ApiError> {
        Message::from_record(record, request_id)
    }

    /// Stops draining. The remaining records stay in the spill for the next process.
    pub async fn flush(&self) {
        self.0.stop.cancel();
        let link = Arc::clone(&self.0.producer);
        let flushed = tokio::task::spawn_blocking(move || link.flush(FLUSH_DEADLINE)).await;
        if !matches!(flushed, Ok(true)) {
            tracing::warn!("stopped with unacknowledged records; those confirmed with a 2xx are in the spill");
        }
    }

    /// The `/ready` probe: `ok` while the brokers respond, `spilling` while records go to the spill and it has room.
    pub fn probe(&self) -> Probe {
        let log = self.clone();
        Probe::with_state("kafka", move || {
            let log = log.clone();
            async move { log.standing().await }
        })
    }

    async fn standing(&self) -> Option<&'static str> {
        let link = Arc::clone(&self.0.producer);
        let is_led = tokio::task::spawn_blocking(move || link.has_leaders(PROBE_DEADLINE * 9 / 10)).await.unwrap_or(false);
        match self.0.breaker.is_closed() && is_led {
            true => Some("ok"),
            // The brokers respond, but the topic has the wrong configuration.
            false if self.0.breaker.is_unchecked() && is_led => None,
            false => self.0.spill.as_ref().filter(|spill| spill.has_room(ROOM)).map(|_| "spilling"),
        }
    }
}

/// Uses a separate client, dropped before the first record, because the check must not create a topic.
async fn brokers_answer(settings: &KafkaSettings) -> anyhow::Result<bool> {
    let breaker = Arc::new(Breaker::new(false));
    let link = LogProducer::new(settings, breaker, Budget::new(0))?;
    Ok(tokio::task::spawn_blocking(move || link.is_reachable(START_PATIENCE)).await?)
}
