//! Puts dead letters back on the log.

use super::archive::StoredDeadLetter;
use crate::Settings;
use crate::record::decode::{decode, guarded};
use crate::resolve::Resolver;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use schemas::log::header;
use service_kit::kafka;

/// The outcome for a letter, with its copy's position or the reason.
pub(super) struct Outcome {
    pub(super) status: &'static str,
    pub(super) detail: String,
}

pub(super) const REFUSED: &str = "refused";

pub(super) struct Requeue<'a> {
    settings: &'a Settings,
    producer: FutureProducer,
    resolver: Resolver,
}

impl<'a> Requeue<'a> {
    pub(super) fn open(settings: &'a Settings) -> anyhow::Result<Self> {
        let producer = kafka::producer_of_any_size(&settings.kafka)?;
        Ok(Self { settings, producer, resolver: Resolver::connect(&settings.postgres)? })
    }

    /// Requeues a letter if it can be read and was not requeued before.
    pub(super) async fn retry(&self, letter: &StoredDeadLetter) -> anyhow::Result<Outcome> {
        if let Some(copy) = &letter.retried {
            return Ok(Outcome { status: "requeued before", detail: copy.clone() });
        }
        Ok(match self.rejection_reason(letter).await? {
            Some(detail) => Outcome { status: REFUSED, detail },
            None => Outcome { status: "requeued", detail: self.append_to_log(letter).await? },
        })
    }

    /// Returns the reason why this build's worker would reject the record again; `None` if it wouldn't.
    async fn rejection_reason(&self, letter: &StoredDeadLetter) -> anyhow::Result<Option<String>> {
        match guarded(|| decode(&letter.payload)) {
            Ok(record) => self.resolver.rejection_reason(record).await,
            Err(reason) => Ok(Some(reason)),
        }
    }

    /// Appends the record to the log, then a note about it to the dead letters, and returns its position. A crash in between can cause a
    /// second copy, which doesn't change figures.
    async fn append_to_log(&self, letter: &StoredDeadLetter) -> anyhow::Result<String> {
        let kafka = &self.settings.kafka;
        let copy = FutureRecord::<(), [u8]>::to(&kafka.topic).payload(&letter.payload).headers(letter.headers.clone());
        let place = self.producer.send_result(copy).map_err(|(error, _)| error)?.await?.map_err(|(error, _)| error)?;
        let place = format!("{}/{}/{}", kafka.topic, place.partition, place.offset);
        let headers = OwnedHeaders::new()
            .insert(Header { key: header::ORIGIN, value: Some(letter.origin.as_str()) })
            .insert(Header { key: header::REASON, value: Some("requeued") })
            .insert(Header { key: header::RETRIED, value: Some(place.as_str()) });
        let note = FutureRecord::<str, [u8]>::to(&kafka.rejected_topic).key(letter.origin.as_str()).headers(headers);
        self.producer.send_result(note).map_err(|(error, _)| error)?.await?.map_err(|(error, _)| error)?;
        Ok(place)
    }
}
