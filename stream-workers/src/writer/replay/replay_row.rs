//! A replay, stored as a row of `replays`.

use super::super::epoch::{Epoch, random_slot};
use super::super::progress::NextOffsets;
use super::super::statements::{Outcome, Server, WriterExit};
use crate::consume::topic_reader::OffsetRange;
use anyhow::ensure;
use schemas::ids::OrgId;
use service_kit::settings::ClickHouseSettings;
use std::collections::BTreeMap;
use store::row_binary::{Decoder, Encoder, Malformed};
use uuid::Uuid;

/// A replay, with its position and figures so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    pub(crate) topic: String,
    pub(crate) id: Uuid,
    pub(crate) requested_ms: i64,
    pub(crate) plan: Plan,
    /// Parts still to be read. Some may be empty.
    pub(crate) parts: Vec<OffsetRange>,
    pub(crate) figures: ReplayFigures,
    /// Number of writers that started or continued it since its last block.
    pub(crate) starts: u32,
    pub(crate) status: Status,
    /// Reason for a failure, or what was unexpected.
    pub(crate) message: String,
}

/// A replay's options, besides the parts of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The replay stores only reports of these organizations; empty for all.
    pub(crate) orgs: Vec<OrgId>,
    /// Maximum events per second; 0 for no limit.
    pub(crate) rate: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplayFigures {
    pub(crate) records: u64,
    pub(crate) events: u64,
    /// Records that became dead letters, or would become dead letters.
    pub(crate) unreadable: u64,
    /// Records skipped because processes crashed while decoding them.
    pub(crate) quarantined: u64,
    pub(crate) changed_events: u64,
    pub(crate) changed_reports: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Waiting,
    Running,
    Done,
    Failed,
}

const INSERT: &str = include_str!("../sql/insert_replay.sql");
const STATUSES: [Status; 4] = [Status::Waiting, Status::Running, Status::Done, Status::Failed];

impl Replay {
    /// Creates a request that no writer has seen yet.
    pub(crate) fn new(topic: &str, requested_ms: i64, plan: Plan, parts: Vec<OffsetRange>) -> Self {
        let (topic, id) = (topic.to_owned(), Uuid::from_u128(rand::random()));
        let (figures, status) = (ReplayFigures::default(), Status::Waiting);
        Self { topic, id, requested_ms, plan, parts, figures, starts: 0, status, message: String::new() }
    }

    pub(super) async fn pending(server: &Server, topic: &str) -> anyhow::Result<Option<Self>> {
        let response =
            server.read_with_short_deadline(include_str!("../sql/pending_replay.sql"), &[("topic", topic.to_owned())]).await?;
        Ok(Decoder(&response).rows(Self::decode)?.pop())
    }

    pub(crate) async fn read(&self, settings: &ClickHouseSettings) -> anyhow::Result<Self> {
        let parameters = [("topic", self.topic.clone()), ("id", self.id.to_string())];
        let response =
            Server::connect(settings)?.read_with_short_deadline(include_str!("../sql/replay.sql"), &parameters).await?;
        let newest = Decoder(&response).rows(Self::decode)?.pop();
        newest.ok_or_else(|| anyhow::anyhow!("replay {} was deleted", self.id))
    }

    pub(crate) async fn request(&self, settings: &ClickHouseSettings) -> anyhow::Result<()> {
        // It doesn't change other tables, so it isn't fenced.
        let sql = INSERT.lines().filter(|line| !line.starts_with("WHERE")).collect::<Vec<_>>().join("\n");
        let outcome = Server::connect(settings)?.run(&random_slot(), &(sql + "\n"), &[], &self.encode(0)).await;
        ensure!(outcome == Outcome::Done, "CLICKHOUSE_URL: failed to insert into the table replays");
        Ok(())
    }

    /// Inserts the active writer's newest row.
    pub(super) async fn insert(&self, version: u64, (server, epoch): (&Server, &Epoch)) -> Result<(), WriterExit> {
        let parameters = [("epoch", epoch.number.to_string())];
        server.run_until_done(epoch, INSERT, &parameters, &self.encode(version)).await
    }

    /// Returns the unread parts that the writer has stored, because they are before these offsets.
    pub(super) fn available(&self, stored: &NextOffsets) -> Vec<OffsetRange> {
        let clipped = self
            .parts
            .iter()
            .map(|part| OffsetRange { to: part.to.min(stored.get(&part.partition).copied().unwrap_or(0)), ..*part });
        clipped.filter(|part| part.from < part.to).collect()
    }

    pub(super) fn is_read(&self) -> bool {
        self.parts.iter().all(|part| part.len() == 0)
    }

    /// Marks everything before these offsets as read.
    pub(super) fn advance(&mut self, next: &BTreeMap<i32, i64>) {
        for part in &mut self.parts {
            part.from = next.get(&part.partition).copied().unwrap_or(part.from).clamp(part.from, part.to);
        }
    }

    fn encode(&self, version: u64) -> Vec<u8> {
        let mut row = Encoder::default();
        row.text(&self.topic);
        row.uuid(self.id);
        row.i64(self.requested_ms);
        row.array(self.plan.orgs.iter(), |row, org| row.uuid(org.0));
        row.u32(self.plan.rate);
        row.array(self.parts.iter(), |row, part| row.i32(part.partition));
        row.array(self.parts.iter(), |row, part| row.i64(part.from));
        row.array(self.parts.iter(), |row, part| row.i64(part.to));
        let ReplayFigures { records, events, unreadable, quarantined, changed_events, changed_reports } = self.figures;
        for figure in [records, events, unreadable, quarantined, changed_events, changed_reports] {
            row.u64(figure);
        }
        row.u32(self.starts);
        row.u8(self.status as u8);
        row.text(&self.message);
        row.u64(version);
        row.0
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (topic, id, requested_ms) = (from.text()?, from.uuid()?, from.i64()?);
        let plan = Plan { orgs: from.array(|from| from.uuid().map(OrgId))?, rate: from.u32()? };
        let (partitions, next, until) = (from.array(Decoder::i32)?, from.array(Decoder::i64)?, from.array(Decoder::i64)?);
        if next.len() != partitions.len() || until.len() != partitions.len() {
            return Err(Malformed);
        }
        let part = |((partition, from), to)| OffsetRange { partition, from, to };
        let parts = partitions.into_iter().zip(next).zip(until).map(part).collect();
        let mut figure = || from.u64();
        let (records, events, unreadable, quarantined) = (figure()?, figure()?, figure()?, figure()?);
        let figures =
            ReplayFigures { records, events, unreadable, quarantined, changed_events: figure()?, changed_reports: figure()? };
        let starts = from.u32()?;
        let status = STATUSES.get(usize::from(from.u8()?)).copied().ok_or(Malformed)?;
        Ok(Self { topic, id, requested_ms, plan, parts, figures, starts, status, message: from.text()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replay_rows_round_trip() {
        let parts = vec![OffsetRange { partition: 0, from: 3, to: 9 }, OffsetRange { partition: 7, from: 5, to: 5 }];
        let plan = Plan { orgs: vec![OrgId(Uuid::from_u128(1))], rate: 20 };
        let figures =
            ReplayFigures { records: 1, events: 2, unreadable: 3, quarantined: 4, changed_events: 5, changed_reports: 6 };
        let new = Replay::new("topic", 1_000, plan, parts);
        let replay = Replay { figures, starts: 2, status: Status::Failed, message: "why".to_owned(), ..new };
        let bytes = replay.encode(7);
        // The version is written but not read.
        assert_eq!(Decoder(&bytes[..bytes.len() - 8]).rows(Replay::decode).unwrap(), [replay]);
    }

    #[test]
    fn rereads_only_stored_records() {
        let parts = vec![OffsetRange { partition: 0, from: 3, to: 9 }, OffsetRange { partition: 1, from: 0, to: 4 }];
        let mut replay = Replay::new("topic", 0, Plan::default(), parts);
        assert_eq!(replay.available(&NextOffsets::from([(0, 5)])), [OffsetRange { partition: 0, from: 3, to: 5 }]);
        replay.advance(&NextOffsets::from([(0, 5), (1, 4)]));
        assert!(replay.available(&NextOffsets::from([(0, 5), (1, 9)])).is_empty() && !replay.is_read());
        replay.advance(&NextOffsets::from([(0, 12)]));
        assert!(replay.is_read());
    }
}
