//! The log's stored offsets: rows of `progress`.

use super::epoch::{Epoch, random_slot};
use super::poison_records::Suspect;
use super::statements::{Outcome, Server, WriterExit};
use crate::consume::partition_stats::{Counts, PartitionStats};
use std::collections::BTreeMap;
use store::row_binary::{Decoder, Encoder, Malformed};

/// Offset of the next record to read, by partition.
pub(crate) type NextOffsets = BTreeMap<i32, i64>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The writer's epoch and the row's number. Grows with each row, so standbys see that the writer is alive.
    pub(crate) beat: u64,
    pub(crate) complete: u64,
    /// Progress of each partition. Partitions that were never read are missing.
    pub(crate) partitions: BTreeMap<i32, PartitionStats>,
    /// The record being decoded, while the writer is careful.
    pub(crate) suspect: Option<Suspect>,
}

impl Progress {
    /// Returns the newest row; `None` if no writer has inserted one.
    pub(crate) async fn read(server: &Server, topic: &str) -> Result<Option<Self>, WriterExit> {
        let response = server.read_with_retries(include_str!("sql/progress.sql"), &[("topic", topic.to_owned())]).await;
        Ok(Self::decode_any(&response)?)
    }

    /// Like [`read`](Self::read), but fails if the server doesn't respond.
    pub(super) async fn read_once(server: &Server, topic: &str) -> anyhow::Result<Option<Self>> {
        let response = server.read_with_short_deadline(include_str!("sql/progress.sql"), &[("topic", topic.to_owned())]).await?;
        Ok(Self::decode_any(&response)?)
    }

    fn decode_any(response: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut from = Decoder(response);
        if from.is_empty() { Ok(None) } else { Self::decode(&mut from).map(Some) }
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (beat, complete) = (from.u64()?, from.u64()?);
        let (numbers, next, since) = (from.array(Decoder::i32)?, from.array(Decoder::i64)?, from.array(Decoder::i64)?);
        let mut counts = || from.array(Decoder::u64);
        let [records, events, rejected_records, rejected] = [counts()?, counts()?, counts()?, counts()?];
        let is_even = [next.len(), since.len(), records.len(), events.len(), rejected_records.len(), rejected.len()]
            .into_iter()
            .all(|length| length == numbers.len());
        if !is_even {
            return Err(Malformed);
        }
        let partition = |(n, number): (usize, i32)| {
            let (records, stored, rejected_records, rejected) = (records[n], events[n], rejected_records[n], rejected[n]);
            let counts = Counts { records, stored, rejected_records, rejected };
            (number, PartitionStats { since: since[n], next: next[n], counts })
        };
        let suspect = Suspect { partition: from.i32()?, offset: from.i64()?, deaths: from.u32()? };
        Ok(Self {
            beat,
            complete,
            partitions: numbers.into_iter().enumerate().map(partition).collect(),
            suspect: Some(suspect).filter(|suspect| suspect.partition >= 0),
        })
    }

    pub(crate) fn next(&self) -> NextOffsets {
        self.partitions.iter().map(|(partition, stats)| (*partition, stats.next)).collect()
    }

    pub(super) async fn insert(&self, server: &Server, epoch: &Epoch, topic: &str) -> Result<(), WriterExit> {
        let parameters = [("epoch", epoch.number.to_string())];
        server.run_until_done(epoch, include_str!("sql/insert_progress.sql"), &parameters, &self.encode(topic)).await
    }

    /// Inserts a heartbeat once, concurrently with the epoch's other statements. Has no effect if a later row is inserted first.
    pub(super) async fn insert_concurrently(&self, server: &Server, epoch: &Epoch, topic: &str) -> Result<(), WriterExit> {
        let (sql, parameters) = (include_str!("sql/insert_progress.sql"), [("epoch", epoch.number.to_string())]);
        match server.run(&random_slot(), sql, &parameters, &self.encode(topic)).await {
            Outcome::Fenced => Err(WriterExit::Fenced(epoch.number)),
            _ => Ok(()),
        }
    }

    /// Encodes the row as a body, because there may be thousands of partitions.
    fn encode(&self, topic: &str) -> Vec<u8> {
        let mut row = Encoder::default();
        row.text(topic);
        row.u64(self.beat);
        row.u64(self.complete);
        row.array(self.partitions.keys(), |row, partition| row.i32(*partition));
        let stats = || self.partitions.values();
        row.array(stats(), |row, stats| row.i64(stats.next));
        row.array(stats(), |row, stats| row.i64(stats.since));
        row.array(stats(), |row, stats| row.u64(stats.counts.records));
        row.array(stats(), |row, stats| row.u64(stats.counts.stored));
        row.array(stats(), |row, stats| row.u64(stats.counts.rejected_records));
        row.array(stats(), |row, stats| row.u64(stats.counts.rejected));
        let suspect = self.suspect.unwrap_or(Suspect { partition: -1, offset: 0, deaths: 0 });
        row.i32(suspect.partition);
        row.i64(suspect.offset);
        row.u32(suspect.deaths);
        row.0
    }
}
/// Returns the largest epoch and the newest beat of `progress`, each 0 if missing.
pub(super) async fn head(server: &Server) -> anyhow::Result<(u64, u64)> {
    let response = server.read_with_short_deadline(include_str!("sql/head.sql"), &[]).await?;
    let mut from = Decoder(&response);
    Ok((from.u64()?, from.u64()?))
}
