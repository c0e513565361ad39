//! The producer: one per process, with a delivery report per record.

use super::ACK_PATIENCE;
use super::breaker::Breaker;
use super::in_flight_budget::{Budget, Reservation};
use super::message::Message;
use crate::metrics;
use rdkafka::client::ClientContext;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// A retry may succeed. The record may already be on the log, in which case it is there twice and counts once.
    #[error("{0}")]
    Transient(KafkaError),
    /// Retrying can't succeed.
    #[error("{0}")]
    Permanent(KafkaError),
}

/// The outcome of one record, once known.
pub(super) type Delivery = oneshot::Receiver<Result<(), SendError>>;

pub(super) struct LogProducer {
    settings: KafkaSettings,
    producer: Arc<ThreadedProducer<DeliveryReports>>,
    budget: Arc<Budget>,
}

/// Handles delivery reports on the producer's own thread.
struct DeliveryReports {
    breaker: Arc<Breaker>,
}

struct InFlightRecord {
    since: Instant,
    events: u32,
    answer: oneshot::Sender<Result<(), SendError>>,
    _reservation: Option<Reservation>,
}

impl LogProducer {
    pub(super) fn new(settings: &KafkaSettings, breaker: Arc<Breaker>, budget: Arc<Budget>) -> anyhow::Result<Self> {
        let producer =
            ThreadedProducer::from_config_and_context(&kafka::producer_config(settings)?, DeliveryReports { breaker })?;
        Ok(Self { settings: settings.clone(), producer: Arc::new(producer), budget })
    }

    /// Sends a request's record. Returns `None` if the budget is used up.
    pub(super) fn send(&self, message: &Message) -> Option<Result<Delivery, SendError>> {
        let reservation = self.budget.reserve(message.bytes())?;
        Some(self.enqueue(message, Some(reservation)))
    }

    /// Sends a spilled record. The sender limits how many are in flight.
    pub(super) fn send_spilled(&self, message: &Message) -> Result<Delivery, SendError> {
        self.enqueue(message, None)
    }

    fn enqueue(&self, message: &Message, reservation: Option<Reservation>) -> Result<Delivery, SendError> {
        let (answer, delivery) = oneshot::channel();
        let flight =
            Box::new(InFlightRecord { since: Instant::now(), events: message.events, answer, _reservation: reservation });
        let mut record =
            BaseRecord::with_opaque_to(&self.settings.topic, flight).payload(&message.value).headers(message.headers());
        if let Some(key) = &message.key {
            record = record.key(key.as_str());
        }
        match self.producer.send(record) {
            Ok(()) => Ok(delivery),
            Err((error, _)) => Err(SendError::of_handing_over(error)),
        }
    }

    /// Returns whether a broker responds within `within`. Blocks.
    pub(super) fn is_reachable(&self, within: Duration) -> bool {
        self.producer.client().fetch_metadata(None, within).is_ok()
    }

    /// Returns whether every partition of the topic has a leader. Blocks for up to `within`.
    pub(super) fn has_leaders(&self, within: Duration) -> bool {
        self.producer.client().fetch_metadata(Some(&self.settings.topic), within).is_ok_and(|metadata| {
            metadata.topics().iter().all(|topic| topic.error().is_none() && topic.partitions().iter().all(|p| p.leader() >= 0))
        })
    }

    /// Waits for unacknowledged records. Blocks.
    pub(super) fn flush(&self, within: Duration) -> bool {
        self.producer.flush(within).is_ok()
    }
}

impl Drop for LogProducer {
    /// Drops the producer on a thread of its own, because dropping it blocks for up to a second.
    fn drop(&mut self) {
        let producer = Arc::clone(&self.producer);
        std::thread::spawn(move || drop(producer));
    }
}

impl ClientContext for DeliveryReports {}

impl ProducerContext for DeliveryReports {
    type DeliveryOpaque = Box<InFlightRecord>;

    fn delivery(&self, result: &DeliveryResult<'_>, flight: Box<InFlightRecord>) {
        let after = flight.since.elapsed();
        let answer = match result {
            Ok(_) => {
                metrics::acknowledged(after);
                self.breaker.acknowledged(after);
                Ok(())
            }
            Err((error, _)) => Err(SendError::Transient(error.clone())),
        };
        // Without a receiver, the request was spilled or its client disconnected.
        if let Err(Ok(())) = flight.answer.send(answer) {
            metrics::acknowledged_late(flight.events);
        }
    }
}

impl SendError {
    /// A record is permanently rejected only if the producer itself finds it too large. Broker errors can be fixed: a topic's size limit, a
    /// missing topic, a missing permission.
    fn of_handing_over(error: KafkaError) -> Self {
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::MessageSizeTooLarge) => Self::Permanent(error),
            _ => Self::Transient(error),
        }
    }

    pub(super) fn is_full_queue(&self) -> bool {
        matches!(self, Self::Transient(error) if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull))
    }
}

// A request must not still be waiting for the producer when its record is spilled.
const _: () = assert!(ACK_PATIENCE.as_millis() < kafka::DELIVERY_TIMEOUT.as_millis());

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::consumer::{BaseConsumer, Consumer as _};
    use rdkafka::mocking::MockCluster;
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
    use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};

    fn message(bytes: &[u8]) -> Message {
        Message::from_bytes(&[&[0; 7], bytes].concat()).unwrap()
    }

    /// Returns every record in the only partition of `t`.
    fn on_the_log(brokers: &str) -> Vec<Vec<u8>> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("group.id", "reads-by-hand")
            .set("enable.partition.eof", "true")
            .create()
            .unwrap();
        let mut partition = TopicPartitionList::new();
        partition.add_partition_offset("t", 0, Offset::Beginning).unwrap();
        consumer.assign(&partition).unwrap();
        let mut found = Vec::new();
        loop {
            match consumer.poll(Duration::from_secs(30)).expect("the mock cluster responds") {
                Ok(message) => found.push(message.payload().unwrap().to_vec()),
                Err(KafkaError::PartitionEOF(_)) => return found,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[tokio::test]
    async fn acknowledged_records_survive_a_leader_change() {
        let cluster = MockCluster::new(1).unwrap();
        cluster.create_topic("t", 1, 1).unwrap();
        let settings = KafkaSettings { topic: "t".to_owned(), ..KafkaSettings::at(cluster.bootstrap_servers()) };
        let link = LogProducer::new(&settings, Arc::new(Breaker::new(true)), Budget::new(1_000)).unwrap();
        // Connect first, so that everything a producer requests before its first record is done.
        assert!(link.send_spilled(&message(b"0")).unwrap().await.unwrap().is_ok());
        cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION]);
        // Longer than the producer lingers, so both records are in flight before the first is rejected.
        cluster.broker_round_trip_time(1, Duration::from_millis(500)).unwrap();
        let first = link.send_spilled(&message(b"1")).unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        let second = link.send_spilled(&message(b"2")).unwrap();
        assert!(second.await.unwrap().is_ok());
        assert!(first.await.unwrap().is_ok());
        cluster.broker_round_trip_time(1, Duration::ZERO).unwrap();
        let mut found = on_the_log(&cluster.bootstrap_servers());
        found.sort();
        assert_eq!(found, [b"0", b"1", b"2"]);
    }
}
