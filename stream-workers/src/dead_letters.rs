//! Dead letters: records that can't be decoded or resolved, stored with their bytes, their position and the reason.
//!
//! A block is stored only after its dead letters are acknowledged, so records are never lost.

mod archive;
mod requeue;
mod command;
mod operators;

pub(crate) use archive::KnownDeadLetters;
pub use command::RejectedCommand;
pub(crate) use operators::serve_operators;

use crate::consume::DeadLetter;
use futures::StreamExt as _;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::Header;
use rdkafka::producer::{FutureProducer, FutureRecord};
use schemas::log::header;
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use std::time::Duration;

/// Pause before an unacknowledged dead letter is sent again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
const MAX_REASON_BYTES: usize = 1_024;
/// Maximum number of letters sent concurrently.
const AT_ONCE: usize = 100;
/// Bytes to store of a record that is too large for the topic.
const HEAD_BYTES: usize = 1024 * 1024;

pub(crate) struct RejectedTopic {
    producer: FutureProducer,
    topic: String,
    known: KnownDeadLetters,
}

impl RejectedTopic {
    pub(crate) fn connect(settings: &KafkaSettings, known: KnownDeadLetters) -> anyhow::Result<Self> {
        Ok(Self { producer: kafka::producer_of_any_size(settings)?, topic: settings.rejected_topic.clone(), known })
    }

    /// Sends every new letter until it is acknowledged. If several have the same origin, the first counts.
    pub(crate) async fn send_all(&self, letters: &[DeadLetter]) {
        let is_new = |letter: &&DeadLetter| !self.known.contains(letter.partition, letter.offset);
        futures::stream::iter(letters.iter().filter(is_new))
            .for_each_concurrent(AT_ONCE, |letter| self.send_with_retries(letter))
            .await;
    }

    async fn send_with_retries(&self, letter: &DeadLetter) {
        while let Err(error) = self.send_or_truncate(letter).await {
            tracing::error!(origin = letter.origin, "failed to send a dead letter, retrying: {error}");
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        tracing::warn!(origin = letter.origin, reason = letter.reason, "rejected a record");
    }

    /// Sends the record, or only its head if the record is too large for the topic of rejected records.
    async fn send_or_truncate(&self, letter: &DeadLetter) -> KafkaResult<()> {
        let whole = self.send(letter, &letter.reason, &letter.payload).await;
        let Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge)) = whole else { return whole };
        let head = &letter.payload[..letter.payload.len().min(HEAD_BYTES)];
        let reason = format!("only the first {} of {} bytes are stored: {}", head.len(), letter.payload.len(), letter.reason);
        self.send(letter, &reason, head).await
    }

    async fn send(&self, letter: &DeadLetter, reason: &str, payload: &[u8]) -> KafkaResult<()> {
        let reason = &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)];
        let headers = letter.headers.clone();
        let headers = headers
            .insert(Header { key: header::ORIGIN, value: Some(letter.origin.as_str()) })
            .insert(Header { key: header::REASON, value: Some(reason) });
        let record = FutureRecord::<str, [u8]>::to(&self.topic).key(letter.origin.as_str()).payload(payload).headers(headers);
        let sent = self.producer.send_result(record).map_err(|(error, _)| error)?;
        sent.await.map_err(|_| KafkaError::Canceled)?.map_err(|(error, _)| error)?;
        Ok(())
    }
}
