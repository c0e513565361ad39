//! Kafka clients as this service sets them up, and the contract a topic must keep.
//!
//! Must not choose between durability and speed: `acks=all`, idempotence and `earliest` are not settings.

use crate::settings::KafkaSettings;
use anyhow::{Context, bail};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{FutureProducer, Producer};
use rdkafka::{ClientConfig, types::RDKafkaErrorCode};
use std::time::Duration;

/// How long a produce may take, retries included; below every HTTP deadline.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(8);
/// How long start-up waits for the brokers.
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a topic must be absent to be missing, and the pause between.
const ABSENCE_TRIES: u32 = 25;
const ABSENCE_PAUSE: Duration = Duration::from_millis(200);
/// Partitions of a topic this service creates.
const PARTITIONS: i32 = 6;

/// What every client shares.
pub fn client(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", brokers)
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "1000")
        .set("socket.timeout.ms", "10000")
        .set("log.connection.close", "false");
    config
}

/// The producer of accepted requests and of dead letters: an acknowledged record is on every in-sync replica.
pub fn producer(brokers: &str) -> anyhow::Result<FutureProducer> {
    producer_config(brokers).create().with_context(|| format!("KAFKA_BROKERS={brokers}: not a broker list"))
}

/// What every producer shares.
pub fn producer_config(brokers: &str) -> ClientConfig {
    let mut config = client(brokers);
    config
        .set("acks", "all")
        .set("enable.idempotence", "true")
        .set("compression.type", "lz4")
        .set("linger.ms", "1")
        .set("message.max.bytes", schemas::log::MAX_RECORD_BYTES.to_string())
        .set("message.timeout.ms", DELIVERY_TIMEOUT.as_millis().to_string())
        .set("queue.buffering.max.kbytes", "131072");
    config
}

/// Creates the topics that are missing; existing ones are left as they are.
pub async fn create_topics(settings: &KafkaSettings) -> anyhow::Result<()> {
    let admin = admin(&settings.kafka_brokers)?;
    let record_limit = schemas::log::MAX_RECORD_BYTES.to_string();
    // -1: the brokers' own default replication factor.
    let topic = |name| {
        NewTopic::new(name, PARTITIONS, TopicReplication::Fixed(-1))
            .set("max.message.bytes", &record_limit)
            .set("retention.ms", "-1")
    };
    let results = admin.create_topics(&[topic(&settings.topic), topic(&settings.rejected_topic)], &options()).await;
    for result in results.with_context(|| unreachable_brokers(&settings.kafka_brokers))? {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((name, code)) => bail!("topic {name}: cannot be created: {code}"),
        }
    }
    Ok(())
}

/// Refuses a log that would break the promise of a 2xx: a missing topic, or one that takes smaller records than
/// the gateway accepts.
pub async fn check_topics(settings: &KafkaSettings) -> anyhow::Result<()> {
    let admin = admin(&settings.kafka_brokers)?;
    for topic in [&settings.topic, &settings.rejected_topic] {
        let Some(limit) = topic_config(&admin, settings, topic, "max.message.bytes").await? else {
            bail!("topic {topic} does not exist: create it with `stream-workers prepare`");
        };
        let limit: usize = limit.parse().with_context(|| format!("topic {topic}: max.message.bytes is {limit}"))?;
        if limit < schemas::log::MAX_RECORD_BYTES {
            bail!("topic {topic}: max.message.bytes is {limit}; set it to at least {}", schemas::log::MAX_RECORD_BYTES);
        }
    }
    Ok(())
}

/// How long a log keeps its records, segments that are not rolled yet aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// It never drops one.
    ForEver,
    /// At least so long.
    For(Duration),
}

/// How long the log of accepted requests is kept. What the broker says in words this build does not know is for ever.
pub async fn retention(settings: &KafkaSettings) -> anyhow::Result<Retention> {
    let said = topic_config(&admin(&settings.kafka_brokers)?, settings, &settings.topic, "retention.ms").await?;
    let said = said.with_context(|| format!("topic {} does not exist", settings.topic))?;
    Ok(said.parse().map_or(Retention::ForEver, |ms| Retention::For(Duration::from_millis(ms))))
}

/// A setting of a topic; `None` when there is no such topic. A topic created a moment ago may not be known to every
/// broker yet, so its absence is believed only when it lasts.
async fn topic_config(
    admin: &AdminClient<DefaultClientContext>,
    settings: &KafkaSettings,
    topic: &str,
    name: &str,
) -> anyhow::Result<Option<String>> {
    for _ in 0..ABSENCE_TRIES {
        let found = admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options()).await;
        let found = found.with_context(|| unreachable_brokers(&settings.kafka_brokers))?;
        let value = found.into_iter().flatten().find_map(|config| config.get(name)?.value.clone());
        if value.is_some() {
            return Ok(value);
        }
        tokio::time::sleep(ABSENCE_PAUSE).await;
    }
    Ok(None)
}

/// Whether the brokers answer for the topic within `within`.
pub async fn answers(producer: &FutureProducer, topic: &str, within: Duration) -> bool {
    let (producer, topic) = (producer.clone(), topic.to_owned());
    let asked = tokio::task::spawn_blocking(move || {
        producer.client().fetch_metadata(Some(&topic), within).is_ok_and(|metadata| {
            metadata.topics().iter().all(|topic| topic.error().is_none() && topic.partitions().iter().all(|p| p.leader() >= 0))
        })
    });
    asked.await.unwrap_or(false)
}

fn admin(brokers: &str) -> anyhow::Result<AdminClient<DefaultClientContext>> {
    client(brokers).create().with_context(|| format!("KAFKA_BROKERS={brokers}: not a broker list"))
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ADMIN_TIMEOUT)).operation_timeout(Some(ADMIN_TIMEOUT))
}

fn unreachable_brokers(brokers: &str) -> String {
    format!("KAFKA_BROKERS={brokers}: no broker answers; start one, or correct the address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_producer_takes_less_than_every_in_sync_replicas_word() {
        let config = producer_config("127.0.0.1:1");
        assert_eq!((config.get("acks"), config.get("enable.idempotence")), (Some("all"), Some("true")));
    }
}
