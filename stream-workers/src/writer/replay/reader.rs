//! Reads parts of the log again, in chunks that a writer stores between two blocks.

use super::replay_row::{Plan, ReplayFigures};
use crate::Settings;
use crate::consume::Block;
use crate::consume::topic_reader::{OffsetRange, TopicReader};
use crate::dead_letters::KnownDeadLetters;
use crate::record::new_report::NewReport;
use crate::resolve::Resolver;
use rdkafka::message::Message as _;
use std::collections::BTreeMap;
use store::tables::FailedFetchRow;

/// Maximum events per chunk, so that blocks of the log never wait long.
const MOST_EVENTS: usize = 10_000;
/// Number of chunks per second at a limited rate.
const CHUNKS_PER_SECOND: u32 = 10;
const MOST_EXAMPLES: usize = 3;

/// Decoded records whose click tokens and agents were looked up.
#[derive(Default)]
pub(crate) struct Chunk {
    pub(super) reports: Vec<NewReport>,
    pub(super) failed_fetches: Vec<FailedFetchRow>,
    /// Offset after the last record, by partition.
    pub(super) next: BTreeMap<i32, i64>,
    pub(crate) figures: ReplayFigures,
    /// Origin and reason of unreadable records without a dead letter.
    pub(crate) unexpected: Vec<String>,
}

/// Reads parts of the log. Doesn't send dead letters or write sessions, because that was done when the log was first read.
pub(crate) struct Reader {
    topic: TopicReader,
    plan: Plan,
    letters: KnownDeadLetters,
    resolver: Resolver,
}

impl Reader {
    pub(crate) async fn begin(settings: &Settings, plan: &Plan, parts: &[OffsetRange]) -> anyhow::Result<Self> {
        let mut topic = TopicReader::open(&settings.kafka, &settings.kafka.topic)?;
        topic.assign(parts)?;
        let letters = KnownDeadLetters::read(&settings.kafka).await?;
        Ok(Self { topic, plan: plan.clone(), letters, resolver: Resolver::connect(&settings.postgres)? })
    }

    /// Returns the next chunk; `None` if everything was read.
    pub(crate) async fn chunk(&mut self) -> anyhow::Result<Option<Chunk>> {
        let (mut block, mut chunk) = (Block::default(), Chunk::default());
        while !block.is_full() && block.events() < self.most_events() {
            let Some(message) = self.topic.next().await? else { break };
            let (partition, offset) = (message.partition(), message.offset());
            if self.letters.is_quarantined(partition, offset) {
                chunk.figures.quarantined += 1;
            } else {
                block.push(&message, |record| self.plan.orgs.is_empty() || self.plan.orgs.contains(&record.org));
            }
            chunk.figures.records += 1;
            chunk.next.insert(partition, offset + 1);
        }
        if chunk.figures.records == 0 {
            return Ok(None);
        }
        chunk.figures.events = block.events() as u64;
        self.resolver.resolve(&mut block).await;
        chunk.figures.unreadable = block.dead_letters.len() as u64;
        let unexpected = block.dead_letters.iter().filter(|letter| !self.letters.contains(letter.partition, letter.offset));
        chunk.unexpected = unexpected.map(|letter| format!("{}: {}", letter.origin, letter.reason)).collect();
        Ok(Some(Chunk { reports: block.reports, failed_fetches: block.failed_fetches, ..chunk }))
    }

    fn most_events(&self) -> usize {
        match usize::try_from(self.plan.rate.div_ceil(CHUNKS_PER_SECOND)) {
            Ok(0) | Err(_) => MOST_EVENTS,
            Ok(most) => most.min(MOST_EVENTS),
        }
    }
}

impl ReplayFigures {
    pub(crate) fn add(&mut self, read: &Self) {
        self.records += read.records;
        self.events += read.events;
        self.unreadable += read.unreadable;
        self.quarantined += read.quarantined;
        self.changed_events += read.changed_events;
        self.changed_reports += read.changed_reports;
    }
}

/// Returns a message about unreadable records that aren't in the dead letters; empty if there are none.
pub(crate) fn message(unexpected: &[String]) -> String {
    if unexpected.is_empty() {
        return String::new();
    }
    let examples = unexpected.iter().take(MOST_EXAMPLES).map(String::as_str).collect::<Vec<_>>().join(", ");
    format!("{} records can't be read and have no dead letter ({examples})", unexpected.len())
}
