//! 3 LOG: one accepted request becomes one record, and is acknowledged by every in-sync replica before the 2xx.
//!
//! Must not report success for anything less than the acknowledgement (invariants 1 and 2).

use crate::metrics;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use schemas::log::{LogRecord, header};
use schemas::problem::Code;
use service_kit::health::Probe;
use service_kit::http::ApiError;
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use std::time::{Duration, Instant};

/// What a stopping gateway gives records that are still on their way.
const FLUSH_DEADLINE: Duration = Duration::from_secs(5);

/// The log as the gateway sees it: somewhere to append.
#[derive(Clone)]
pub struct Log {
    producer: FutureProducer,
    topic: String,
}

impl Log {
    /// Sets up the producer; brokers are contacted on first use.
    pub fn connect(settings: &KafkaSettings) -> anyhow::Result<Self> {
        Ok(Self { producer: kafka::producer(&settings.kafka_brokers)?, topic: settings.topic.clone() })
    }

    /// Appends a record and waits for its acknowledgement.
    pub(crate) async fn append(&self, record: &LogRecord, request_id: &str) -> Result<(), ApiError> {
        let value = serde_json::to_vec(record).map_err(ApiError::internal)?;
        if value.len() > schemas::log::MAX_RECORD_BYTES {
            return Err(ApiError::new(Code::TooLarge, "The request is too large for the log."));
        }
        let key = partition_key(record);
        let mut message = FutureRecord::to(&self.topic).payload(&value).headers(headers(record, request_id));
        if let Some(key) = &key {
            message = message.key(key);
        }
        let started = Instant::now();
        let delivery = self.producer.send_result(message).map_err(|(error, _)| not_acknowledged(error))?;
        match delivery.await {
            Ok(Ok(_)) => {
                metrics::acknowledged(started.elapsed());
                Ok(())
            }
            Ok(Err((error, _))) => Err(not_acknowledged(error)),
            Err(_) => Err(not_acknowledged(anyhow::anyhow!("the producer was dropped"))),
        }
    }

    /// Waits for what is on its way.
    pub async fn flush(&self) {
        let producer = self.producer.clone();
        let flushed = tokio::task::spawn_blocking(move || producer.flush(FLUSH_DEADLINE)).await;
        if !matches!(flushed, Ok(Ok(()))) {
            tracing::error!("records were still unacknowledged at the stop; their requests were not answered 2xx");
        }
    }

    /// What `/ready` asks.
    pub fn probe(&self) -> Probe {
        Probe::kafka(self.producer.clone(), self.topic.clone())
    }
}

/// The record may or may not be on the log: the caller must be told to send again, which is harmless.
fn not_acknowledged(error: impl Into<anyhow::Error>) -> ApiError {
    metrics::unacknowledged();
    ApiError::unavailable(error).with_detail("The log did not acknowledge the request. Send it again: repeats are counted once.")
}

fn headers(record: &LogRecord, request_id: &str) -> OwnedHeaders {
    let schema = format!("telemetry.v1/{}", record.v);
    let org = record.org.to_string();
    OwnedHeaders::new()
        .insert(Header { key: header::SCHEMA, value: Some(schema.as_str()) })
        .insert(Header { key: header::ORG, value: Some(org.as_str()) })
        .insert(Header { key: header::REQUEST_ID, value: Some(request_id) })
}

/// Keeps observers of one retrieval, and events of one session, together: locality for the worker's fold, never
/// correctness.
fn partition_key(record: &LogRecord) -> Option<String> {
    match record.events.as_slice() {
        [only] if only.content_telemetry_id.is_some() => only.content_telemetry_id.clone(),
        events => events.iter().find_map(|event| event.session_id).map(|session| session.to_string()),
    }
}
