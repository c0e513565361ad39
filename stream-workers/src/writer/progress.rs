//! Stored offsets of the log: rows of `progress`.

use super::caution::Suspect;
use super::epoch::Epoch;
use super::server::{Ended, Server};
use crate::consume::partition_stats::{Counts, PartitionStats};
use std::collections::BTreeMap;
use std::fmt::Display;
use store::row_binary::{Decoder, Malformed};

/// Of each partition the offset of the next record to read.
pub(crate) type NextOffsets = BTreeMap<i32, i64>;

/// The newest row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Epoch of the writer and number of the row; grows with each row, so a standby sees that a writer is alive.
    pub(crate) beat: u64,
    /// Version of the last complete block.
    pub(crate) complete: u64,
    /// How far each partition is in the store; absent ones haven't been read.
    pub(crate) partitions: BTreeMap<i32, PartitionStats>,
    /// The record that is being decoded, while the writer is careful.
    pub(crate) suspect: Option<Suspect>,
}

impl Progress {
    /// Returns the newest row; `None` if no writer has inserted one.
    pub(crate) async fn read(server: &Server, topic: &str) -> Result<Option<Self>, Ended> {
        let response = server.read_patiently(include_str!("sql/progress.sql"), &[("topic", topic.to_owned())]).await;
        let mut from = Decoder(&response);
        if from.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self::decode(&mut from)?))
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
            let (records, inserted, rejected_records, rejected) = (records[n], events[n], rejected_records[n], rejected[n]);
            let counts = Counts { records, inserted, folded: 0, rejected_records, rejected };
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

    /// Returns where to read on.
    pub(crate) fn next(&self) -> NextOffsets {
        self.partitions.iter().map(|(partition, stats)| (*partition, stats.next)).collect()
    }

    /// Inserts it as a writer's newest row.
    pub(super) async fn insert(&self, server: &Server, epoch: &Epoch, topic: &str) -> Result<(), Ended> {
        let of = |column: fn(&PartitionStats) -> u64| array(self.partitions.values().map(column));
        let suspect = self.suspect.unwrap_or(Suspect { partition: -1, offset: 0, deaths: 0 });
        let parameters = [
            ("topic", topic.to_owned()),
            ("beat", self.beat.to_string()),
            ("complete", self.complete.to_string()),
            ("partitions", array(self.partitions.keys())),
            ("next", array(self.partitions.values().map(|stats| stats.next))),
            ("since", array(self.partitions.values().map(|stats| stats.since))),
            ("records", of(|stats| stats.counts.records)),
            ("events", of(|stats| stats.counts.inserted)),
            ("rejected_records", of(|stats| stats.counts.rejected_records)),
            ("rejected_events", of(|stats| stats.counts.rejected)),
            ("suspect_partition", suspect.partition.to_string()),
            ("suspect_offset", suspect.offset.to_string()),
            ("suspect_deaths", suspect.deaths.to_string()),
            ("epoch", epoch.number.to_string()),
        ];
        server.insist(epoch, include_str!("sql/insert_progress.sql"), &parameters, &[]).await
    }
}

fn array(values: impl Iterator<Item = impl Display>) -> String {
    format!("[{}]", values.map(|value| value.to_string()).collect::<Vec<_>>().join(","))
}
