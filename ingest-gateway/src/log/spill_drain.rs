//! Drains the spill to the log in order, with many records in flight. A record is deleted only after its acknowledgement.
//!
//! 1. Wait until the topic has passed its check.
//! 2. Read and send the next entries, up to a window; one at a time while the log doesn't acknowledge.
//! 3. Wait for the oldest. If it is acknowledged, commit its end as the position and delete the segments before it.
//! 4. If it is not acknowledged, pause and resume from it. Entries in flight after it may arrive twice, which is harmless.

use super::ACK_PATIENCE;
use super::breaker::Breaker;
use super::log_producer::{Delivery, LogProducer, SendError};
use super::message::Message;
use super::spill::{Backlog, Pending, Position, SpilledEntry};
use crate::metrics;
use service_kit::log_throttle::LogThrottle;
use service_kit::settings::KafkaSettings;
use service_kit::{crash_point, kafka};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Maximum number of entries in flight, and of their bytes.
const WINDOW_RECORDS: usize = 2_048;
const WINDOW_BYTES: usize = 8 * 1024 * 1024;
/// Pause between two attempts while the log does not acknowledge.
const PROBE_PAUSE: Duration = Duration::from_millis(200);
/// Pause between two checks of a topic with the wrong configuration.
const CHECK_PAUSE: Duration = Duration::from_secs(5);
/// How often acknowledged entries are released, and the maximum number waiting for release.
const RELEASE_INTERVAL: Duration = Duration::from_millis(50);
const RELEASE_RECORDS: u64 = 4_096;
/// Time for which the spill must be empty before its last file is deleted.
const IDLE: Duration = Duration::from_secs(1);

pub(super) struct SpillDrain {
    link: Arc<LogProducer>,
    breaker: Arc<Breaker>,
    settings: KafkaSettings,
}

impl SpillDrain {
    pub(super) fn new(link: Arc<LogProducer>, breaker: Arc<Breaker>, settings: KafkaSettings) -> Self {
        Self { link, breaker, settings }
    }

    /// Runs in its own task until `stop`.
    pub(super) fn start(self, backlog: Option<Backlog>, stop: CancellationToken) {
        let work = async move {
            let mut course = backlog.map(|backlog| SpillDrainProgress::new(&self, backlog));
            if let Some(course) = &mut course {
                // Count first, so that an earlier process's entries are counted even while the log is unavailable.
                course.count().await;
            }
            self.check_contract().await;
            match course {
                Some(course) => course.run().await,
                None => self.keep_probing().await,
            }
        };
        tokio::spawn(async move { stop.run_until_cancelled(work).await });
    }

    async fn check_contract(&self) {
        while self.breaker.is_unchecked() {
            if !self.asks(|link| link.is_reachable(ACK_PATIENCE)).await {
                tokio::time::sleep(PROBE_PAUSE).await;
                continue;
            }
            match kafka::check_topics(&self.settings).await {
                Ok(()) => self.breaker.checked(),
                Err(error) => {
                    tracing::error!("the topic check failed, so all records are spilled: {error:#}");
                    tokio::time::sleep(CHECK_PAUSE).await;
                }
            }
        }
    }

    /// Probes the log when there is no spill, so the breaker can close without a spilled record.
    async fn keep_probing(&self) {
        loop {
            tokio::select! {
                () = self.breaker.opened.notified() => {}
                () = tokio::time::sleep(PROBE_PAUSE) => {}
            }
            self.probe().await;
        }
    }

    /// Checks whether the log has recovered, when there is no record to try.
    async fn probe(&self) {
        let asked = Instant::now();
        if !self.breaker.is_closed() && self.asks(|link| link.has_leaders(ACK_PATIENCE)).await {
            self.breaker.acknowledged(asked.elapsed());
        }
    }

    async fn asks(&self, question: impl FnOnce(&LogProducer) -> bool + Send + 'static) -> bool {
        let link = Arc::clone(&self.link);
        tokio::task::spawn_blocking(move || question(&link)).await.unwrap_or(false)
    }
}

struct InFlightEntry {
    spilled: SpilledEntry,
    events: u64,
    delivery: Delivery,
}

/// Acknowledged entries that are not released yet.
struct AcknowledgedEntries {
    position: Position,
    count: Pending,
    since: Instant,
}

struct SpillDrainProgress<'a> {
    drain: &'a SpillDrain,
    /// `None` only during a disk operation.
    backlog: Option<Backlog>,
    read: VecDeque<SpilledEntry>,
    in_flight: VecDeque<InFlightEntry>,
    in_flight_bytes: usize,
    done: Option<AcknowledgedEntries>,
    /// The log did not acknowledge the last entry, so only one is sent at a time.
    is_probing: bool,
    complaint: LogThrottle,
}

impl<'a> SpillDrainProgress<'a> {
    fn new(drain: &'a SpillDrain, backlog: Backlog) -> Self {
        Self {
            drain,
            backlog: Some(backlog),
            read: VecDeque::new(),
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            done: None,
            is_probing: true,
            complaint: LogThrottle::default(),
        }
    }

    async fn count(&mut self) {
        self.on_disk(|backlog| backlog.count(Message::events_of)).await;
    }

    async fn run(mut self) {
        loop {
            self.fill().await;
            let Some(oldest) = self.in_flight.pop_front() else {
                self.rest().await;
                continue;
            };
            self.in_flight_bytes -= oldest.spilled.payload.len();
            match oldest.delivery.await {
                Ok(Ok(())) => {
                    metrics::drained(1);
                    self.is_probing = false;
                    self.acknowledge(oldest.spilled.end, oldest.events).await;
                }
                Ok(Err(failure)) => self.retry_from(oldest.spilled.begin, &failure.to_string()).await,
                Err(_) => self.retry_from(oldest.spilled.begin, "the Kafka producer stopped").await,
            }
        }
    }

    async fn fill(&mut self) {
        let window = if self.is_probing { 1 } else { WINDOW_RECORDS };
        while self.in_flight.len() < window && self.in_flight_bytes < WINDOW_BYTES {
            if self.read.is_empty() {
                self.read = self.on_disk(Backlog::read).await.unwrap_or_default().into();
            }
            let Some(spilled) = self.read.pop_front() else { return };
            let sent = match Message::from_bytes(&spilled.payload) {
                Some(message) => self.drain.link.send_spilled(&message).map(|delivery| (delivery, u64::from(message.events))),
                None => return self.set_aside(spilled, "this build does not support the record's format").await,
            };
            match sent {
                Ok((delivery, events)) => {
                    self.in_flight_bytes += spilled.payload.len();
                    self.in_flight.push_back(InFlightEntry { spilled, events, delivery });
                }
                Err(SendError::Permanent(error)) => return self.set_aside(spilled, &error.to_string()).await,
                Err(failure) if self.in_flight.is_empty() => return self.retry_from(spilled.begin, &failure.to_string()).await,
                // The queue is full. There is room again once the oldest is acknowledged.
                Err(_) => return self.read.push_front(spilled),
            }
        }
    }

    /// Pauses, then resumes from the entry that the log did not acknowledge.
    async fn retry_from(&mut self, from: Position, reason: &str) {
        self.drain.breaker.open(reason);
        if self.complaint.is_due() {
            tracing::warn!("failed to drain the spill: {reason}");
        }
        self.is_probing = true;
        self.in_flight.clear();
        self.in_flight_bytes = 0;
        self.read.clear();
        self.release().await;
        self.on_disk(move |backlog| {
            backlog.rewind(from);
            Ok(())
        })
        .await;
        tokio::time::sleep(PROBE_PAUSE).await;
        self.drain.probe().await;
    }

    /// Waits for new entries, and releases disk space in the meantime.
    async fn rest(&mut self) {
        self.release().await;
        let pause = if self.drain.breaker.is_closed() { IDLE } else { PROBE_PAUSE };
        let Some(inventory) = self.backlog.as_ref().map(Backlog::inventory) else { return };
        if tokio::time::timeout(pause, inventory.grown.notified()).await.is_err() {
            self.on_disk(Backlog::release_all).await;
            self.drain.probe().await;
        }
    }

    async fn set_aside(&mut self, spilled: SpilledEntry, reason: &str) {
        let (reason, end, events) = (reason.to_owned(), spilled.end, Message::events_of(&spilled.payload));
        let begin = spilled.begin;
        if self.on_disk(move |backlog| backlog.set_aside(&spilled, &reason)).await.is_none() {
            // An entry that can't be stored must not be skipped.
            return self.retry_from(begin, "failed to move a rejected record to a file").await;
        }
        if self.in_flight.is_empty() {
            self.acknowledge(end, events).await;
        }
    }

    async fn acknowledge(&mut self, position: Position, events: u64) {
        let done =
            self.done.get_or_insert_with(|| AcknowledgedEntries { position, count: Pending::default(), since: Instant::now() });
        done.position = position;
        done.count.records += 1;
        done.count.events += events;
        if done.count.records >= RELEASE_RECORDS || done.since.elapsed() >= RELEASE_INTERVAL {
            self.release().await;
        }
    }

    async fn release(&mut self) {
        if let Some(done) = self.done.take() {
            crash_point::reached("drained_before_release");
            self.on_disk(move |backlog| backlog.release(done.position, done.count)).await;
        }
    }

    /// Runs disk operations outside the threads that serve requests.
    async fn on_disk<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Backlog) -> io::Result<T> + Send + 'static,
    ) -> Option<T> {
        let mut backlog = self.backlog.take()?;
        let asked = tokio::task::spawn_blocking(move || {
            let result = work(&mut backlog);
            (backlog, result)
        });
        let (backlog, result) = match asked.await {
            Ok(done) => done,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down, and drops this task when it waits.
            Err(_) => std::future::pending().await,
        };
        self.backlog = Some(backlog);
        match result {
            Ok(result) => Some(result),
            Err(error) => {
                tracing::error!("failed to read the spill: {error}");
                tokio::time::sleep(IDLE).await;
                None
            }
        }
    }
}
