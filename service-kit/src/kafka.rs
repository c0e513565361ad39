//! Kafka clients, and checks of the topic configuration.

use crate::settings::KafkaSettings;
use anyhow::{Context, bail};
use chrono::TimeDelta;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigResource, ConfigSource, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::metadata::MetadataTopic;
use rdkafka::producer::{FutureProducer, Producer};
use rdkafka::{ClientConfig, types::RDKafkaErrorCode};
use std::time::Duration;

/// Produce timeout, including retries; shorter than every HTTP deadline.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(8);
/// The client library's maximum message size, before compression.
const MOST_BYTES: &str = "1000000000";
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of times to look for a topic before reporting it as missing, and the pause in between.
const ABSENCE_TRIES: u32 = 25;
const ABSENCE_PAUSE: Duration = Duration::from_millis(200);
const PARTITIONS: i32 = 6;
/// Copies of each record, and copies required for an acknowledgement, in clusters with enough brokers.
const REPLICAS: usize = 3;
const IN_SYNC: usize = 2;

pub fn client(settings: &KafkaSettings) -> anyhow::Result<ClientConfig> {
    let mut config = ClientConfig::new();
    settings.security.apply(&mut config)?;
    config
        .set("bootstrap.servers", &settings.kafka_brokers)
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "1000")
        .set("socket.timeout.ms", "10000")
        .set("log.connection.close", "false");
    Ok(config)
}

/// Returns the producer for accepted requests. An acknowledged record is on every in-sync replica.
pub fn producer(settings: &KafkaSettings) -> anyhow::Result<FutureProducer> {
    producer_config(settings)?.create().with_context(|| no_client(settings))
}

/// Returns the configuration of every producer. It isn't idempotent, because librdkafka's idempotent producer can lose a record: if a
/// broker rejects a new producer's first request and becomes the partition's leader before the second, the first is reported as delivered
/// (<https://github.com/confluentinc/confluent-kafka-go/issues/921>). Duplicate records are counted once.
pub fn producer_config(settings: &KafkaSettings) -> anyhow::Result<ClientConfig> {
    let mut config = client(settings)?;
    config
        .set("acks", "all")
        // Batch records while earlier ones wait for a response, instead of sending them one by one.
        .set("max.in.flight.requests.per.connection", "5")
        .set("compression.type", "lz4")
        .set("linger.ms", "1")
        .set("message.max.bytes", (schemas::log::MAX_RECORD_BYTES + schemas::log::MAX_DEAD_LETTER_OVERHEAD_BYTES).to_string())
        .set("message.timeout.ms", DELIVERY_TIMEOUT.as_millis().to_string())
        .set("queue.buffering.max.kbytes", "131072");
    Ok(config)
}

/// Returns the producer for dead letters and retried records. It accepts any size that the log accepts.
pub fn producer_of_any_size(settings: &KafkaSettings) -> anyhow::Result<FutureProducer> {
    producer_config(settings)?.set("message.max.bytes", MOST_BYTES).create().with_context(|| no_client(settings))
}

/// Creates missing topics. Leaves existing ones unchanged.
pub async fn create_topics(settings: &KafkaSettings) -> anyhow::Result<()> {
    let admin = admin(settings)?;
    let brokers =
        admin.inner().fetch_metadata(None, ADMIN_TIMEOUT).with_context(|| unreachable_brokers(&settings.kafka_brokers))?;
    let count = brokers.brokers().len();
    let is_cluster = count >= REPLICAS;
    if settings.must_replicate && !is_cluster {
        bail!(
            "KAFKA_BROKERS={}: {count} broker(s), but production requires {REPLICAS} copies of each record; add brokers",
            settings.kafka_brokers
        );
    }
    // -1 means the broker's default replication factor.
    let copies = if is_cluster { 3 } else { -1 };
    let limits = limits(settings).map(|(topic, limit)| (topic, limit.to_string()));
    let topics = limits.iter().map(|(topic, limit)| {
        let topic = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(copies))
            .set("max.message.bytes", limit)
            .set("retention.ms", "-1");
        if is_cluster { topic.set("min.insync.replicas", "2") } else { topic }
    });
    let results = admin.create_topics(&topics.collect::<Vec<_>>(), &options()).await;
    for result in results.with_context(|| unreachable_brokers(&settings.kafka_brokers))? {
        match result {
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((name, code)) => bail!("topic {name}: failed to create it: {code}"),
        }
    }
    Ok(())
}

/// Rejects topics that can't keep the promise of a 2xx: missing topics, topics that are compacted or have too low a size limit and, in a
/// cluster, topics that require too few copies for an acknowledgement.
pub async fn check_topics(settings: &KafkaSettings) -> anyhow::Result<()> {
    let admin = admin(settings)?;
    for (topic, least) in limits(settings) {
        let Some(found) = topic_config(&admin, settings, topic).await? else {
            bail!("topic {topic} does not exist: create it with `telemetry stream-workers prepare`");
        };
        let fix = |setting: &str| format!("run kafka-configs.sh --alter --topic {topic} --add-config {setting}");
        let limit = found.number("max.message.bytes").unwrap_or(0);
        if limit < least {
            bail!("topic {topic}: max.message.bytes is {limit}; {}", fix(&format!("max.message.bytes={least}")));
        }
        let policy = found.text("cleanup.policy").unwrap_or_default();
        if policy != "delete" {
            bail!(
                "topic {topic}: cleanup.policy is {policy}, which drops records that share a key; {}",
                fix("cleanup.policy=delete")
            );
        }
        if found.text("unclean.leader.election.enable").is_some_and(|set| set != "false") {
            bail!("topic {topic}: a stale broker can become the leader; {}", fix("unclean.leader.election.enable=false"));
        }
        let (replicas, in_sync) = (replicas(&admin, settings, topic).await?, found.number("min.insync.replicas").unwrap_or(1));
        if settings.must_replicate && replicas < REPLICAS {
            bail!(
                "topic {topic}: {replicas} of the {REPLICAS} copies that production requires; run kafka-reassign-partitions.sh, or create the topic again with {REPLICAS} brokers"
            );
        }
        if replicas >= REPLICAS && in_sync < IN_SYNC {
            bail!(
                "topic {topic}: min.insync.replicas is {in_sync} of {replicas}, so one broker alone can acknowledge a record; {}",
                fix(&format!("min.insync.replicas={IN_SYNC}"))
            );
        }
    }
    Ok(())
}

/// Returns each topic's minimum `max.message.bytes`: a dead letter is a record plus a reason.
fn limits(settings: &KafkaSettings) -> [(&str, usize); 2] {
    let record = schemas::log::MAX_RECORD_BYTES;
    [(&settings.topic, record), (&settings.rejected_topic, record + schemas::log::MAX_DEAD_LETTER_OVERHEAD_BYTES)]
}

/// Returns a topic's replicas. A broker may not know a new topic yet and then returns no partitions, so this retries for a while.
async fn replicas(admin: &AdminClient<DefaultClientContext>, settings: &KafkaSettings, topic: &str) -> anyhow::Result<usize> {
    for _ in 0..ABSENCE_TRIES {
        let metadata = admin.inner().fetch_metadata(Some(topic), ADMIN_TIMEOUT);
        let metadata = metadata.with_context(|| unreachable_brokers(&settings.kafka_brokers))?;
        let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
        if let Some(fewest) = partitions.map(|partition| partition.replicas().len()).min() {
            return Ok(fewest);
        }
        tokio::time::sleep(ABSENCE_PAUSE).await;
    }
    bail!("topic {topic}: no broker returned its partitions; start again when the cluster is stable")
}

/// A topic's retention, not counting segments that are still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    ForEver,
    For(Duration),
}

/// Time that a record can outlive the retention, until its segment is rolled and the broker deletes it.
const OVERSTAY: TimeDelta = TimeDelta::days(30);

impl Retention {
    /// Returns how long to keep data that a record may reference up to `after` its creation; `None` means forever. The log's retention is
    /// the minimum. If the log is kept forever, `wished` applies, and replays may find older data missing.
    pub fn retention_for(self, wished: Option<TimeDelta>, after: TimeDelta) -> Option<TimeDelta> {
        let Self::For(kept) = self else { return wished };
        let needed = TimeDelta::from_std(kept).ok()?.checked_add(&(after + OVERSTAY))?;
        Some(wished.unwrap_or(needed).max(needed))
    }
}

/// Returns a topic's retention. A value that isn't a number of milliseconds, such as -1, means forever.
pub async fn retention(settings: &KafkaSettings, topic: &str) -> anyhow::Result<Retention> {
    let found = topic_config(&admin(settings)?, settings, topic).await?;
    let found = found.with_context(|| format!("topic {topic} does not exist"))?;
    Ok(found.number("retention.ms").map_or(Retention::ForEver, |ms: u64| Retention::For(Duration::from_millis(ms))))
}

/// Sets a topic's retention. Leaves its other settings unchanged.
pub async fn set_retention(settings: &KafkaSettings, topic: &str, keep: Duration) -> anyhow::Result<()> {
    let admin = admin(settings)?;
    let found = topic_config(&admin, settings, topic).await?.with_context(|| format!("topic {topic} does not exist"))?;
    let keep = keep.as_millis().to_string();
    // Altering resets every setting that isn't named.
    let own = found.0.entries.iter().filter(|entry| entry.source == ConfigSource::DynamicTopic && entry.name != "retention.ms");
    let mut altered = AlterConfig::new(ResourceSpecifier::Topic(topic)).set("retention.ms", &keep);
    for entry in own {
        altered = altered.set(&entry.name, entry.value.as_deref().unwrap_or_default());
    }
    let results = admin.alter_configs([&altered], &options()).await;
    for result in results.with_context(|| unreachable_brokers(&settings.kafka_brokers))? {
        result.map_err(|(_, code)| anyhow::anyhow!("topic {topic}: failed to set retention.ms to {keep}: {code}"))?;
    }
    Ok(())
}

struct TopicConfig(ConfigResource);

impl TopicConfig {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.value.as_deref()
    }

    /// Returns `None` if the value is missing or not a valid number of this type, such as -1 for an unsigned one.
    fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.text(name)?.parse().ok()
    }
}

/// Returns a topic's settings, or `None` if it doesn't exist. A broker may not know a new topic yet, so this retries for a while.
async fn topic_config(
    admin: &AdminClient<DefaultClientContext>,
    settings: &KafkaSettings,
    topic: &str,
) -> anyhow::Result<Option<TopicConfig>> {
    for _ in 0..ABSENCE_TRIES {
        let found = admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options()).await;
        let found = found.with_context(|| unreachable_brokers(&settings.kafka_brokers))?;
        let found = found.into_iter().flatten().find(|config| !config.entries.is_empty());
        if found.is_some() {
            return Ok(found.map(TopicConfig));
        }
        tokio::time::sleep(ABSENCE_PAUSE).await;
    }
    Ok(None)
}

pub async fn responds(producer: &FutureProducer, topic: &str, within: Duration) -> bool {
    let (producer, topic) = (producer.clone(), topic.to_owned());
    let asked = tokio::task::spawn_blocking(move || {
        producer.client().fetch_metadata(Some(&topic), within).is_ok_and(|metadata| {
            metadata.topics().iter().all(|topic| topic.error().is_none() && topic.partitions().iter().all(|p| p.leader() >= 0))
        })
    });
    asked.await.unwrap_or(false)
}

/// Returns the client for creating topics and altering topics and groups.
pub fn admin(settings: &KafkaSettings) -> anyhow::Result<AdminClient<DefaultClientContext>> {
    client(settings)?.create().with_context(|| no_client(settings))
}

fn no_client(settings: &KafkaSettings) -> String {
    format!("KAFKA_BROKERS={}: failed to create a client; correct the list or the TLS settings", settings.kafka_brokers)
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ADMIN_TIMEOUT)).operation_timeout(Some(ADMIN_TIMEOUT))
}

fn unreachable_brokers(brokers: &str) -> String {
    format!("KAFKA_BROKERS={brokers}: no broker responds; start one or correct the address")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producers_wait_for_all_in_sync_replicas() {
        let config = producer_config(&KafkaSettings::at("127.0.0.1:1")).unwrap();
        assert_eq!((config.get("acks"), config.get("enable.idempotence")), (Some("all"), None));
    }
}
