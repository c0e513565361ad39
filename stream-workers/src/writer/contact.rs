//! Whether this process reaches Kafka. A writer that doesn't can store nothing: it stops its heartbeats, and only a standby that reaches
//! Kafka takes over. While nobody reaches Kafka, nobody claims an epoch, and the active writer continues when Kafka is back.

use rdkafka::admin::AdminClient;
use rdkafka::client::DefaultClientContext;
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Pause between requests to the brokers.
const EVERY: Duration = Duration::from_secs(2);
/// Longest wait for one response.
const DEADLINE: Duration = Duration::from_secs(4);
/// A standby whose last response is older doesn't take over. Shorter than [`LOST_AFTER`]: when Kafka stops, standbys notice before the
/// active writer becomes silent.
const RECENT: Duration = Duration::from_secs(7);
/// An active writer whose last response is older stops its heartbeats.
const LOST_AFTER: Duration = Duration::from_secs(15);

/// When a broker responded last.
#[derive(Clone)]
pub(super) struct Contact(Option<Arc<Mutex<Instant>>>);

impl Contact {
    /// Asks the brokers again and again until the handle is dropped. A broker has responded just before.
    pub(super) fn watch(settings: &KafkaSettings) -> anyhow::Result<(Self, AbortOnDropHandle<()>)> {
        let (client, contact) = (Arc::new(kafka::admin(settings)?), Self(Some(Arc::new(Mutex::new(Instant::now())))));
        let watching = tokio::spawn(keep_asking(client, settings.topic.clone(), contact.clone()));
        Ok((contact, AbortOnDropHandle::new(watching)))
    }

    /// The contact of a writer that reads no log.
    pub(super) fn without_log() -> Self {
        Self(None)
    }

    /// Whether a standby may take over.
    pub(super) fn is_recent(&self) -> bool {
        self.age() < RECENT
    }

    /// Whether an active writer must be silent.
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

async fn keep_asking(client: Arc<AdminClient<DefaultClientContext>>, topic: String, contact: Contact) {
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
            (false, true) => tracing::error!("no contact with Kafka; a standby that reaches it may take over"),
            (true, false) => tracing::info!("contact with Kafka again"),
            _ => {}
        }
        tokio::time::sleep(EVERY).await;
    }
}
