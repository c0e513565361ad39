//! The producer: one per process, replaced when it fails for good, with an answer per record from its delivery report.
//!
//! Must not report a delivery that was not acknowledged by every in-sync replica; `acks=all` is set where it is made.

use super::ACK_PATIENCE;
use super::breaker::Breaker;
use super::budget::{Budget, Reservation};
use super::message::Message;
use crate::metrics;
use rdkafka::client::ClientContext;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Between two new producers: what failed the first may fail the second, such as a missing permission.
const RENEW_PAUSE: Duration = Duration::from_secs(2);

/// Why a record is not on the log, as far as anybody knows.
#[derive(Debug)]
pub(super) enum Failure {
    /// It may be tried again. It may even be on the log: then it is there twice, and counted once.
    Passing(KafkaError),
    /// No try will ever succeed.
    Permanent(KafkaError),
}

/// The answer to one record, once it is known.
pub(super) type Delivery = oneshot::Receiver<Result<(), Failure>>;

/// The way to the log.
pub(super) struct Link {
    settings: KafkaSettings,
    reports: Reports,
    producer: RwLock<Current>,
    budget: Arc<Budget>,
}

/// The producer in use.
struct Current {
    producer: Arc<ThreadedProducer<Reports>>,
    since: Instant,
}

/// Takes delivery reports; called by the producer's own thread.
#[derive(Clone)]
struct Reports {
    breaker: Arc<Breaker>,
}

/// A record on its way.
struct Flight {
    since: Instant,
    events: u32,
    answer: oneshot::Sender<Result<(), Failure>>,
    _reservation: Option<Reservation>,
}

impl Link {
    pub(super) fn new(settings: &KafkaSettings, breaker: Arc<Breaker>, budget: Arc<Budget>) -> anyhow::Result<Self> {
        let reports = Reports { breaker };
        let producer = RwLock::new(produce(settings, &reports)?);
        Ok(Self { settings: settings.clone(), reports, producer, budget })
    }

    /// Hands over a record of a request; none when too much is on its way already.
    pub(super) fn send(&self, message: &Message) -> Option<Result<Delivery, Failure>> {
        let reservation = self.budget.reserve(message.bytes())?;
        Some(self.hand_over(message, Some(reservation)))
    }

    /// Hands over a record of the spill, whose number is bounded by its sender.
    pub(super) fn send_spilled(&self, message: &Message) -> Result<Delivery, Failure> {
        self.hand_over(message, None)
    }

    fn hand_over(&self, message: &Message, reservation: Option<Reservation>) -> Result<Delivery, Failure> {
        let (answer, delivery) = oneshot::channel();
        let flight = Box::new(Flight { since: Instant::now(), events: message.events, answer, _reservation: reservation });
        let mut record =
            BaseRecord::with_opaque_to(&self.settings.topic, flight).payload(&message.value).headers(message.headers());
        if let Some(key) = &message.key {
            record = record.key(key.as_str());
        }
        match self.producer().send(record) {
            Ok(()) => Ok(delivery),
            Err((error, _)) => Err(Failure::of_handing_over(error)),
        }
    }

    /// Replaces a producer that failed for good: idempotence refuses to go on once its sequence is broken.
    pub(super) fn renew_if_failed(&self) -> anyhow::Result<()> {
        let Some((code, reason)) = self.producer().client().fatal_error() else { return Ok(()) };
        let mut current = self.producer.write().unwrap_or_else(PoisonError::into_inner);
        if current.since.elapsed() < RENEW_PAUSE {
            return Ok(());
        }
        tracing::error!("the producer failed for good ({code}: {reason}); going on with a new one");
        let old = std::mem::replace(&mut *current, produce(&self.settings, &self.reports)?);
        metrics::producer_renewed();
        dispose(old.producer);
        Ok(())
    }

    /// Whether any broker answers within `within`. Blocks.
    pub(super) fn answers(&self, within: Duration) -> bool {
        self.producer().client().fetch_metadata(None, within).is_ok()
    }

    /// Whether every partition of the topic has a leader, asked within `within`. Blocks.
    pub(super) fn is_led(&self, within: Duration) -> bool {
        self.producer().client().fetch_metadata(Some(&self.settings.topic), within).is_ok_and(|metadata| {
            metadata.topics().iter().all(|topic| topic.error().is_none() && topic.partitions().iter().all(|p| p.leader() >= 0))
        })
    }

    /// Waits for what is on its way. Blocks.
    pub(super) fn flush(&self, within: Duration) -> bool {
        self.producer().flush(within).is_ok()
    }

    fn producer(&self) -> Arc<ThreadedProducer<Reports>> {
        Arc::clone(&self.producer.read().unwrap_or_else(PoisonError::into_inner).producer)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        dispose(self.producer());
    }
}

/// Dropping a producer blocks for up to a second, which no task can afford.
fn dispose(producer: Arc<ThreadedProducer<Reports>>) {
    std::thread::spawn(move || drop(producer));
}

fn produce(settings: &KafkaSettings, reports: &Reports) -> anyhow::Result<Current> {
    let config = kafka::producer_config(settings)?;
    let producer = ThreadedProducer::from_config_and_context(&config, reports.clone())?;
    Ok(Current { producer: Arc::new(producer), since: Instant::now() })
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<Flight>;

    fn delivery(&self, result: &DeliveryResult<'_>, flight: Box<Flight>) {
        let after = flight.since.elapsed();
        let answer = match result {
            Ok(_) => {
                metrics::acknowledged(after);
                self.breaker.acknowledged(after);
                Ok(())
            }
            Err((error, _)) => Err(Failure::Passing(error.clone())),
        };
        // Nobody listening means that the request has gone on to the spill, or its caller is gone.
        if let Err(Ok(())) = flight.answer.send(answer) {
            metrics::acknowledged_late(flight.events);
        }
    }
}

impl Failure {
    /// Only what the producer itself finds too large is permanent. What a broker refuses, a person can put right: a topic
    /// that takes too small records, a missing topic, a missing permission.
    fn of_handing_over(error: KafkaError) -> Self {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageSizeTooLarge) => Self::Permanent(error),
            _ => Self::Passing(error),
        }
    }

    /// Whether the producer only had no room for one more.
    pub(super) fn is_full_queue(&self) -> bool {
        matches!(self, Self::Passing(error) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Passing(error) | Self::Permanent(error) => error.fmt(f),
        }
    }
}

// A request that went on to the spill must not wait for the producer as well.
const _: () = assert!(ACK_PATIENCE.as_millis() < kafka::DELIVERY_TIMEOUT.as_millis());

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::mocking::MockCluster;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

    /// What the log is sent does not matter here.
    fn message() -> Message {
        Message::from_bytes(&[0, 0, 0, 0, 0, 0, 0, b'{', b'}']).unwrap()
    }

    #[tokio::test]
    async fn a_producer_that_failed_for_good_is_replaced() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("t", 1, 1).unwrap();
        let fatal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
        cluster.request_errors(RDKafkaApiKey::InitProducerId, &[fatal; 3]);
        let settings = KafkaSettings { topic: "t".to_owned(), ..KafkaSettings::at(cluster.bootstrap_servers()) };
        let link = Link::new(&settings, Arc::new(Breaker::new(true)), Budget::new(1_000)).unwrap();
        let failed = match link.send_spilled(&message()) {
            Ok(delivery) => delivery.await.unwrap(),
            Err(failure) => Err(failure),
        };
        assert!(matches!(failed, Err(Failure::Passing(_))), "{failed:?}");
        assert!(link.producer().client().fatal_error().is_some());

        cluster.clear_request_errors(RDKafkaApiKey::InitProducerId);
        tokio::time::sleep(RENEW_PAUSE).await;
        link.renew_if_failed().unwrap();
        assert!(link.producer().client().fatal_error().is_none());
        let delivered = link.send_spilled(&message()).unwrap().await.unwrap();
        assert!(delivered.is_ok(), "{delivered:?}");
    }
}
