//! Kafka clients as this service sets them up, and the contract a topic must keep.

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

/// How long a produce may take, retries included; below every HTTP deadline.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(8);
/// The most that the client library sends, uncompressed.
const MOST_BYTES: &str = "1000000000";
const ADMIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a topic must be absent to be missing, and the pause between.
const ABSENCE_TRIES: u32 = 25;
const ABSENCE_PAUSE: Duration = Duration::from_millis(200);
const PARTITIONS: i32 = 6;
/// Where there are so many brokers, so many keep each record, and so many of them must have it before it counts.
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

/// The producer of accepted requests: an acknowledged record is on every in-sync replica.
pub fn producer(settings: &KafkaSettings) -> anyhow::Result<FutureProducer> {
    producer_config(settings)?.create().with_context(|| no_client(settings))
}

/// What every producer shares. Not idempotent: where the first request of a new producer to a partition is refused by a
/// broker that becomes its leader a moment later and takes the second, librdkafka's idempotent producer reports the first
/// as delivered, and it is nowhere (<https://github.com/confluentinc/confluent-kafka-go/issues/921>). Records that come
/// twice are counted once.
pub fn producer_config(settings: &KafkaSettings) -> anyhow::Result<ClientConfig> {
    let mut config = client(settings)?;
    config
        .set("acks", "all")
        // What waits for an answer is sent together once it is there, instead of one by one.
        .set("max.in.flight.requests.per.connection", "5")
        .set("compression.type", "lz4")
        .set("linger.ms", "1")
        .set("message.max.bytes", (schemas::log::MAX_RECORD_BYTES + schemas::log::MAX_LETTER_HEAD_BYTES).to_string())
        .set("message.timeout.ms", DELIVERY_TIMEOUT.as_millis().to_string())
        .set("queue.buffering.max.kbytes", "131072");
    Ok(config)
}

/// The producer of dead letters, and of records that are put back: it takes whatever the log has taken from anybody.
pub fn producer_of_any_size(settings: &KafkaSettings) -> anyhow::Result<FutureProducer> {
    producer_config(settings)?.set("message.max.bytes", MOST_BYTES).create().with_context(|| no_client(settings))
}

/// Creates the topics that are missing; existing ones are left as they are.
pub async fn create_topics(settings: &KafkaSettings) -> anyhow::Result<()> {
    let admin = admin(settings)?;
    let brokers =
        admin.inner().fetch_metadata(None, ADMIN_TIMEOUT).with_context(|| unreachable_brokers(&settings.kafka_brokers))?;
    let count = brokers.brokers().len();
    let is_cluster = count >= REPLICAS;
    if settings.must_replicate && !is_cluster {
        bail!(
            "KAFKA_BROKERS={}: {count} broker(s), and production wants {REPLICAS} copies of each record; add brokers",
            settings.kafka_brokers
        );
    }
    // -1: the brokers' own default replication factor.
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
            Err((name, code)) => bail!("topic {name}: cannot be created: {code}"),
        }
    }
    Ok(())
}

/// Refuses a log that would break the promise of a 2xx: a missing topic, one that takes smaller records than the gateway
/// accepts, one that drops records by key, or one whose acknowledgement does not outlive a broker where others are there.
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
            bail!("topic {topic}: a broker that missed records may lead; {}", fix("unclean.leader.election.enable=false"));
        }
        let (replicas, in_sync) = (replicas(&admin, settings, topic).await?, found.number("min.insync.replicas").unwrap_or(1));
        if settings.must_replicate && replicas < REPLICAS {
            bail!(
                "topic {topic}: {replicas} of the {REPLICAS} copies that production wants; run kafka-reassign-partitions.sh, or make it anew with {REPLICAS} brokers"
            );
        }
        if replicas >= REPLICAS && in_sync < IN_SYNC {
            bail!(
                "topic {topic}: min.insync.replicas is {in_sync} of {replicas}, so one broker's word is enough; {}",
                fix(&format!("min.insync.replicas={IN_SYNC}"))
            );
        }
    }
    Ok(())
}

/// What each topic takes: a dead letter is its record with a reason.
fn limits(settings: &KafkaSettings) -> [(&str, usize); 2] {
    let record = schemas::log::MAX_RECORD_BYTES;
    [(&settings.topic, record), (&settings.rejected_topic, record + schemas::log::MAX_LETTER_HEAD_BYTES)]
}

/// The copies of a topic's records. A topic created a moment ago may not be known yet to the broker that is asked, which
/// says of its partitions nothing, not that they have no copies: so as with its settings, that is believed only when it lasts.
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
    bail!("topic {topic}: no broker says where its partitions are; start again once the cluster is at rest")
}

/// How long a log keeps its records, segments that are not rolled yet aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    ForEver,
    For(Duration),
}

/// A record outlives the log's retention until its segment is rolled and the broker has looked.
const OVERSTAY: TimeDelta = TimeDelta::days(30);

impl Retention {
    /// For how long to keep what a record may ask for as late as `after` its making; `None` is for ever. A wish that is shorter
    /// than the log is kept gives way to it, but with a log that is kept for ever the operator decides how far back a replay
    /// finds it.
    pub fn outlived(self, wished: Option<TimeDelta>, after: TimeDelta) -> Option<TimeDelta> {
        let Self::For(kept) = self else { return wished };
        let needed = TimeDelta::from_std(kept).ok()?.checked_add(&(after + OVERSTAY))?;
        Some(wished.unwrap_or(needed).max(needed))
    }
}

/// How long a topic keeps its records. What the broker says in words this build does not know is for ever.
pub async fn retention(settings: &KafkaSettings, topic: &str) -> anyhow::Result<Retention> {
    let found = topic_config(&admin(settings)?, settings, topic).await?;
    let found = found.with_context(|| format!("topic {topic} does not exist"))?;
    Ok(found.number("retention.ms").map_or(Retention::ForEver, |ms: u64| Retention::For(Duration::from_millis(ms))))
}

/// Lets a topic keep its records for so long, and leaves all else about it as it is.
pub async fn set_retention(settings: &KafkaSettings, topic: &str, keep: Duration) -> anyhow::Result<()> {
    let admin = admin(settings)?;
    let found = topic_config(&admin, settings, topic).await?.with_context(|| format!("topic {topic} does not exist"))?;
    let keep = keep.as_millis().to_string();
    // The brokers take back whatever an alteration does not name.
    let own = found.0.entries.iter().filter(|entry| entry.source == ConfigSource::DynamicTopic && entry.name != "retention.ms");
    let mut altered = AlterConfig::new(ResourceSpecifier::Topic(topic)).set("retention.ms", &keep);
    for entry in own {
        altered = altered.set(&entry.name, entry.value.as_deref().unwrap_or_default());
    }
    let results = admin.alter_configs([&altered], &options()).await;
    for result in results.with_context(|| unreachable_brokers(&settings.kafka_brokers))? {
        result.map_err(|(_, code)| anyhow::anyhow!("topic {topic}: retention.ms cannot be set to {keep}: {code}"))?;
    }
    Ok(())
}

struct TopicConfig(ConfigResource);

impl TopicConfig {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.value.as_deref()
    }

    /// None also for what is no number of this kind, such as -1.
    fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.text(name)?.parse().ok()
    }
}

/// The settings of a topic; `None` when there is no such topic. A topic created a moment ago may not be known to every
/// broker yet, so its absence is believed only when it lasts.
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

pub async fn answers(producer: &FutureProducer, topic: &str, within: Duration) -> bool {
    let (producer, topic) = (producer.clone(), topic.to_owned());
    let asked = tokio::task::spawn_blocking(move || {
        producer.client().fetch_metadata(Some(&topic), within).is_ok_and(|metadata| {
            metadata.topics().iter().all(|topic| topic.error().is_none() && topic.partitions().iter().all(|p| p.leader() >= 0))
        })
    });
    asked.await.unwrap_or(false)
}

/// Who creates topics, and alters what they and groups are.
pub fn admin(settings: &KafkaSettings) -> anyhow::Result<AdminClient<DefaultClientContext>> {
    client(settings)?.create().with_context(|| no_client(settings))
}

fn no_client(settings: &KafkaSettings) -> String {
    format!("KAFKA_BROKERS={}: no client can be made; correct the list or the settings of TLS", settings.kafka_brokers)
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
        let config = producer_config(&KafkaSettings::at("127.0.0.1:1")).unwrap();
        assert_eq!((config.get("acks"), config.get("enable.idempotence")), (Some("all"), None));
    }
}
