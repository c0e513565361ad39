//! Tracks whether this process reaches Kafka. A writer without contact can't store anything, so it stops its heartbeats, and a standby with
//! contact takes over. While no process reaches Kafka, no epoch is claimed, and the active writer continues when Kafka recovers.

use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

const EVERY: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(4);
/// After a longer time without a response, a standby doesn't take over. Shorter than [`LOST_AFTER`], so standbys notice a Kafka outage
/// before the active writer stops its heartbeats.
const RECENT: Duration = Duration::from_secs(7);
/// After a longer time without a response, an active writer stops its heartbeats.
const LOST_AFTER: Duration = Duration::from_secs(15);

#[derive(Clone)]
pub(super) struct KafkaContact(Option<Arc<Mutex<Instant>>>);

impl KafkaContact {
    /// Polls the brokers until the handle is dropped. Assumes that a broker has just responded.
    pub(super) fn watch(settings: &KafkaSettings) -> anyhow::Result<(Self, AbortOnDropHandle<()>)> {
        let (client, contact) = (Arc::new(kafka::admin(settings)?), Self(Some(Arc::new(Mutex::new(Instant::now())))));
        let watching = tokio::spawn(keep_asking(client, settings.topic.clone(), contact.clone()));
        Ok((contact, AbortOnDropHandle::new(watching)))
    }

    /// Returns the contact state for a writer without a log.
    pub(super) fn without_log() -> Self {
        Self(None)
    }

    /// Returns whether a standby may take over.
    pub(super) fn is_recent(&self) -> bool {
        self.age() < RECENT
    }

    /// Returns whether an active writer must stop its heartbeats.
    pub(super) fn is_lost(&self) -> bool {
        self.age() >= LOST_AFTER
    }

    fn age(&self) -> Duration {
        let last = self.0.as_ref().map(|last| last.lock().unwrap_or_else(PoisonError::into_inner).elapsed());
        last.unwrap_or_default()
    }

    fn responded(&self) {
        if let Some(last) = &self.0 {
            *last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
    }
}

async fn keep_asking(client: Arc<AdminClient<DefaultClientContext>>, topic: String, contact: KafkaContact) {
    let mut was_lost = false;
    loop {
        let (client, topic) = (Arc::clone(&client), topic.clone());
        let asked = tokio::task::spawn_blocking(move || client.inner().fetch_metadata(Some(&topic), DEADLINE).map(drop));
        match asked.await {
            Ok(Ok(())) => contact.responded(),
            Ok(Err(error)) => tracing::debug!("no broker responded: {error}"),
            Err(_) => {}
        }
        match (std::mem::replace(&mut was_lost, contact.is_lost()), was_lost) {
            (false, true) => tracing::error!("lost contact with Kafka; a standby with contact may take over"),
            (true, false) => tracing::info!("regained contact with Kafka"),
            _ => {}
        }
        tokio::time::sleep(EVERY).await;
    }
}
