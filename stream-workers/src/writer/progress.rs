//! How far the log is in the store: rows of `progress`.

use super::caution::Suspect;
use super::server::{Ended, Epoch, Server};
use super::takeover::malformed;
use std::collections::BTreeMap;
use std::fmt::Display;
use store::row_binary::Decoder;

/// Of each partition the offset of the next record to read.
pub(crate) type NextOffsets = BTreeMap<i32, i64>;

/// The newest row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Epoch of the writer and number of the row; grows with each row, so a standby sees that a writer is alive.
    pub(crate) beat: u64,
    /// Version of the last complete block.
    pub(crate) complete: u64,
    /// Partitions that are absent haven't been read.
    pub(crate) next: NextOffsets,
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
        let mut read = || {
            let (beat, complete) = (from.u64()?, from.u64()?);
            let (partitions, next) = (from.array(Decoder::i32)?, from.array(Decoder::i64)?);
            let suspect = Suspect { partition: from.i32()?, offset: from.i64()?, deaths: from.u32()? };
            let suspect = Some(suspect).filter(|suspect| suspect.partition >= 0);
            Ok(Self { beat, complete, next: partitions.into_iter().zip(next).collect(), suspect })
        };
        read().map(Some).map_err(malformed)
    }

    /// Inserts it as a writer's newest row.
    pub(super) async fn insert(&self, server: &Server, epoch: &Epoch, topic: &str) -> Result<(), Ended> {
        let parameters = [
            ("topic", topic.to_owned()),
            ("beat", self.beat.to_string()),
            ("complete", self.complete.to_string()),
            ("partitions", array(self.next.keys())),
            ("next", array(self.next.values())),
            ("suspect_partition", self.suspect.map_or(-1, |suspect| suspect.partition).to_string()),
            ("suspect_offset", self.suspect.map_or(0, |suspect| suspect.offset).to_string()),
            ("suspect_deaths", self.suspect.map_or(0, |suspect| suspect.deaths).to_string()),
            ("epoch", epoch.number.to_string()),
        ];
        server.insist(epoch, include_str!("sql/insert_progress.sql"), &parameters, &[]).await
    }
}

fn array(values: impl Iterator<Item = impl Display>) -> String {
    format!("[{}]", values.map(|value| value.to_string()).collect::<Vec<_>>().join(","))
}
