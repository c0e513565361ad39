//! A part of the log as blocks, without a group: the same decoding that the worker does.
//!
//! Must leave out what was quarantined: it would end this process too.

use crate::consume::Block;
use crate::consume::topic_reader::{Part, TopicReader};
use rdkafka::message::Message;
use schemas::ids::OrgId;
use std::collections::HashSet;

/// Fills blocks from parts of the log.
pub(super) struct Reader {
    topic: TopicReader,
    orgs: HashSet<OrgId>,
    /// `topic/partition/offset` of records that must not be looked into.
    quarantined: HashSet<String>,
    /// Most events of a block, so that a rate is kept evenly.
    most_events: usize,
    pub(super) records: u64,
    pub(super) skipped: u64,
    /// Rows of the block before.
    room: usize,
}

impl Reader {
    /// Begins to read.
    pub(super) fn begin(
        mut topic: TopicReader,
        parts: &[Part],
        orgs: &[OrgId],
        quarantined: HashSet<String>,
        most_events: usize,
    ) -> anyhow::Result<Self> {
        topic.assign(parts)?;
        Ok(Self { topic, orgs: orgs.iter().copied().collect(), quarantined, most_events, records: 0, skipped: 0, room: 0 })
    }

    /// The next block; empty once everything is read.
    pub(super) async fn block(&mut self) -> anyhow::Result<Block> {
        let mut block = Block::with_room(self.room);
        while !block.is_full() && block.events() < self.most_events {
            let Some(message) = self.topic.next().await? else { break };
            self.records += 1;
            let is_quarantined = !self.quarantined.is_empty()
                && self.quarantined.contains(&format!("{}/{}/{}", message.topic(), message.partition(), message.offset()));
            if is_quarantined {
                self.skipped += 1;
            } else {
                block.push(&message, |record| self.orgs.is_empty() || self.orgs.contains(&record.org));
            }
        }
        self.room = block.rows.len();
        Ok(block)
    }
}
