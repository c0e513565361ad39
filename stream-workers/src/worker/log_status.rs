//! How the log stands: what has become of its records, as the commits of a group say.
//!
//! Must not join the group and must not commit: who looks changes nothing, and sees the same whichever workers live.

use crate::Settings;
use crate::consume::Assigned;
use crate::consume::partition_stats::{Counts, PartitionStats};
use crate::metrics;
use anyhow::{Context, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::{Value, json};
use service_kit::command::{Form, print_json, print_table};
use service_kit::kafka;
use service_kit::settings::KafkaSettings;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// What one question to the brokers may take.
const ASK_DEADLINE: Duration = Duration::from_secs(5);
/// Between two looks of a worker at its own partitions.
const TELL_EVERY: Duration = Duration::from_secs(2);

/// Who asks what a group has committed.
#[derive(Clone)]
struct Observer {
    consumer: Arc<BaseConsumer>,
    topic: String,
}

impl Observer {
    fn of(kafka: &KafkaSettings, group: &str) -> anyhow::Result<Self> {
        let consumer = kafka::client(kafka)?.set("group.id", group).set("enable.auto.commit", "false").create();
        let consumer: BaseConsumer =
            consumer.with_context(|| format!("KAFKA_BROKERS={}: no client can be made", kafka.kafka_brokers))?;
        Ok(Self { consumer: Arc::new(consumer), topic: kafka.topic.clone() })
    }

    /// What is committed, by partition; none where nothing is.
    async fn committed(&self, partitions: BTreeSet<i32>) -> anyhow::Result<BTreeMap<i32, PartitionStats>> {
        let (consumer, topic) = (Arc::clone(&self.consumer), self.topic.clone());
        let asked = spawn_blocking(move || {
            let mut asked = TopicPartitionList::new();
            for partition in partitions {
                asked.add_partition(&topic, partition);
            }
            let found = consumer.committed_offsets(asked, ASK_DEADLINE)?;
            let mut standing = BTreeMap::new();
            for element in found.elements() {
                element.error()?;
                if let Offset::Offset(committed) = element.offset() {
                    standing.insert(element.partition(), PartitionStats::found(element.metadata(), committed));
                }
            }
            anyhow::Ok(standing)
        });
        asked.await?
    }

    /// Every partition and where it ends.
    async fn ends(&self) -> anyhow::Result<BTreeMap<i32, i64>> {
        let (consumer, topic) = (Arc::clone(&self.consumer), self.topic.clone());
        let asked = spawn_blocking(move || {
            let metadata = consumer.fetch_metadata(Some(&topic), ASK_DEADLINE)?;
            let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions).map(MetadataPartition::id);
            let end = |partition| Ok((partition, consumer.fetch_watermarks(&topic, partition, ASK_DEADLINE)?.1));
            partitions.map(end).collect()
        });
        asked.await?
    }
}

/// What the commits of `group` say, by partition, with where the partition ends; a partition without a commit is settled
/// nowhere.
pub async fn standing(kafka: &KafkaSettings, group: &str) -> anyhow::Result<BTreeMap<i32, (PartitionStats, i64)>> {
    let observer = Observer::of(kafka, group)?;
    let no_answer = || format!("KAFKA_BROKERS={}: the topic {} cannot be asked about", kafka.kafka_brokers, kafka.topic);
    let ends = observer.ends().await.with_context(no_answer)?;
    ensure!(!ends.is_empty(), "topic {} does not exist: create it with `telemetry stream-workers prepare`", kafka.topic);
    let committed = observer.committed(ends.keys().copied().collect()).await.with_context(no_answer)?;
    let of = |partition| committed.get(&partition).copied().unwrap_or_else(|| PartitionStats::anew(0));
    Ok(ends.into_iter().map(|(partition, end)| (partition, (of(partition), end))).collect())
}

/// Prints what has become of the log's records.
pub async fn settled(settings: &Settings, form: Form) -> anyhow::Result<()> {
    let standing = standing(&settings.kafka, &settings.tuning.group).await?;
    match form {
        Form::Table => print_table(&TITLES, &rows(&standing)),
        Form::Json => print_json(&document(&standing)),
    }
}

fn document(standing: &BTreeMap<i32, (PartitionStats, i64)>) -> Value {
    let (all, missing) = all_of(standing.values().map(|(settled, _)| settled));
    let partition = |(partition, (settled, end)): (&i32, &(PartitionStats, i64))| {
        let PartitionStats { since, next, counts } = settled;
        json!({"partition": partition, "since": since, "next": next, "end": end, "figures": figures(counts, settled.missing())})
    };
    json!({"partitions": standing.iter().map(partition).collect::<Vec<_>>(), "all": figures(&all, missing)})
}

fn figures(counts: &Counts, missing: u64) -> Value {
    let Counts { records, inserted, folded, rejected_records, rejected } = counts;
    json!({
        "records": records, "missing": missing, "rejected_records": rejected_records,
        "inserted": inserted, "folded": folded, "rejected": rejected,
    })
}

const TITLES: [&str; 10] =
    ["partition", "since", "next", "end", "records", "missing", "rejected records", "inserted", "folded", "rejected"];

/// A line for each partition and one for all.
fn rows(standing: &BTreeMap<i32, (PartitionStats, i64)>) -> Vec<Vec<String>> {
    let (all, missing) = all_of(standing.values().map(|(settled, _)| settled));
    let partition = |(partition, (settled, end)): (&i32, &(PartitionStats, i64))| {
        let places = [i64::from(*partition), settled.since, settled.next, *end].map(|place| place.to_string());
        row(places, &settled.counts, settled.missing())
    };
    let all = row(["all", "", "", ""].map(str::to_owned), &all, missing);
    standing.iter().map(partition).chain([all]).collect()
}

fn row(places: [String; 4], counts: &Counts, missing: u64) -> Vec<String> {
    let Counts { records, inserted, folded, rejected_records, rejected } = *counts;
    let figures = [records, missing, rejected_records, inserted, folded, rejected].map(|figure| figure.to_string());
    places.into_iter().chain(figures).collect()
}

/// What has become of the records of all these partitions, and how many are missing.
fn all_of<'a>(partitions: impl Iterator<Item = &'a PartitionStats>) -> (Counts, u64) {
    partitions.fold((Counts::default(), 0), |(mut all, missing), settled| {
        all += settled.counts;
        (all, missing + settled.missing())
    })
}

/// Tells the metrics.
fn show<'a>(partitions: impl Iterator<Item = &'a PartitionStats>) {
    let (all, missing) = all_of(partitions);
    metrics::settled(all.records, [all.inserted, all.folded, all.rejected], missing);
}

/// Shows what the commits say of a worker's partitions.
#[derive(Clone)]
pub(crate) struct Teller {
    observer: Observer,
    assigned: Arc<Assigned>,
}

impl Teller {
    pub(crate) fn of(settings: &Settings, assigned: Arc<Assigned>) -> anyhow::Result<Self> {
        Ok(Self { observer: Observer::of(&settings.kafka, &settings.tuning.group)?, assigned })
    }

    /// Shows it again and again. Never ends.
    pub(crate) async fn tell(&self) {
        loop {
            let partitions = self.assigned.partitions();
            let committed = match partitions.is_empty() {
                true => Ok(BTreeMap::new()),
                false => self.observer.committed(partitions).await,
            };
            match committed {
                Ok(committed) => show(committed.values()),
                // What was said last still holds, or will be said by somebody else.
                Err(error) => tracing::debug!("what is settled cannot be asked: {error:#}"),
            }
            tokio::time::sleep(TELL_EVERY).await;
        }
    }
}
