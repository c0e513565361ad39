//! Keeps the delta of the index small: merges it into the base about once a second, in every worker, one of them at a time
//! (docs/operating/reads.md#compaction).
//!
//! Must never hold up the log: it fails, waits and gives way by itself, and no row that workers insert depends on it.

mod all_shards;
mod ripeness;

use crate::metrics;
use crate::resolve::back_off::BackOff;
use all_shards::OfShard;
use clickhouse::error::Error;
use ripeness::Ripeness;
use service_kit::retrieval_index::{Compactor, DeltaPart, STEP_ROWS};
use service_kit::settings::ClickHouseSettings;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Between two compactions, at least.
const TICK: Duration = Duration::from_secs(1);
/// And so many times what the last one took, so that the store is at rest for most of the time.
const REST: u32 = 3;
/// How often the base is looked at: its parts have many rows, which the store counts.
const LOOK_AT_BASE: Duration = Duration::from_secs(60);
/// How long a worker stands back when another one compacts: past this nobody is at it.
const STAND_BACK: Duration = Duration::from_secs(10);

/// The compactor of one worker.
pub(crate) struct Compaction {
    compactor: Compactor,
    /// The last compaction that this worker knows of; none before its first look.
    epoch: Option<u64>,
    /// Parts whose reports the base has, and which are not dropped yet.
    covered: BTreeSet<String>,
    /// When each insert into the delta was first seen, by its number.
    seen: BTreeMap<u64, Instant>,
    /// When the base was last looked at.
    base_seen: Option<Instant>,
    told: OfShard,
    ripeness: Ripeness,
}

/// Compacts all of these, each by itself. Never ends.
pub(crate) async fn work(compactions: Vec<Compaction>) -> Infallible {
    let (first, _, _) = futures::future::select_all(compactions.into_iter().map(|one| Box::pin(one.work()))).await;
    first
}

/// What came of one round.
#[derive(Debug, PartialEq, Eq)]
enum Round {
    /// Nothing is to be done, or something was done.
    Done,
    /// Another worker compacts.
    Other,
}

impl Compaction {
    /// One for each shard.
    pub(crate) fn of_each_shard(settings: &ClickHouseSettings) -> anyhow::Result<Vec<Self>> {
        let shards = settings.each_shard();
        let ripeness = |own| if shards.len() > 1 { Ripeness::of_shard(own, settings) } else { Ok(Ripeness::of_one_server()) };
        let of_each = shards.iter().zip(OfShard::of_each(shards.len()));
        of_each.map(|(settings, told)| Self::connect(settings, told, ripeness(settings)?)).collect()
    }

    fn connect(settings: &ClickHouseSettings, told: OfShard, ripeness: Ripeness) -> anyhow::Result<Self> {
        let compactor = Compactor::connect(settings)?;
        Ok(Self { compactor, epoch: None, covered: BTreeSet::new(), seen: BTreeMap::new(), base_seen: None, told, ripeness })
    }

    /// Compacts again and again. Never ends; dropped at any moment it leaves nothing behind that another would have to mend.
    async fn work(mut self) -> Infallible {
        let mut back_off = BackOff::default();
        loop {
            let started = Instant::now();
            match self.round().await {
                Ok(Round::Done) => {
                    back_off = BackOff::default();
                    sleep(TICK.max(started.elapsed() * REST)).await;
                }
                Ok(Round::Other) => {
                    metrics::compaction_lost();
                    sleep(STAND_BACK).await;
                }
                Err(error) => {
                    metrics::compaction_failed();
                    tracing::warn!("compaction failed, trying again: {error}");
                    back_off.pause_at_least(TICK).await;
                }
            }
        }
    }

    /// Looks, compacts what fits into one step, and drops what is compacted.
    async fn round(&mut self) -> Result<Round, Error> {
        let parts = self.look().await?;
        let epoch = self.compactor.epoch().await?;
        if self.epoch.replace(epoch).is_some_and(|known| known != epoch) {
            return Ok(Round::Other);
        }
        let ripe = self.ripeness.look(&parts).await?;
        let step = self.step(&ripe);
        if !step.is_empty() && self.compact(&step, epoch).await? == Round::Other {
            return Ok(Round::Other);
        }
        for part in parts.iter().filter(|part| self.covered.contains(&part.name)) {
            self.compactor.drop_part(part).await?;
        }
        Ok(Round::Done)
    }

    /// The delta as it is, told as metrics.
    async fn look(&mut self) -> Result<Vec<DeltaPart>, Error> {
        let (parts, now) = (self.compactor.parts().await?, Instant::now());
        self.covered.retain(|name| parts.iter().any(|part| part.name == *name));
        let waiting: Vec<_> =
            parts.iter().filter(|part| !self.covered.contains(&part.name)).filter_map(DeltaPart::blocks).collect();
        self.seen.retain(|insert, _| waiting.iter().any(|(first, last)| (first..=last).contains(&insert)));
        for (first, last) in waiting {
            if self.seen.range(first..=last).next().is_none() {
                self.seen.insert(first, now);
            }
        }
        let oldest = self.seen.values().min().map_or(Duration::ZERO, |first| now - *first);
        self.told.delta(parts.len(), parts.iter().map(|part| part.rows).sum(), oldest);
        if self.base_seen.is_none_or(|last| now - last >= LOOK_AT_BASE) {
            self.told.base(self.compactor.base().await?);
            self.base_seen = Some(now);
        }
        Ok(parts)
    }

    /// The oldest parts that are not compacted yet, as many as fit into one step; at least one.
    fn step(&self, parts: &[DeltaPart]) -> Vec<DeltaPart> {
        let mut rows = 0;
        let fits = |part: &&DeltaPart| {
            let is_first = rows == 0;
            rows += part.rows;
            is_first || rows <= STEP_ROWS
        };
        parts.iter().filter(|part| !self.covered.contains(&part.name)).take_while(fits).cloned().collect()
    }

    /// Merges these parts into the base after compaction `epoch`.
    async fn compact(&mut self, step: &[DeltaPart], epoch: u64) -> Result<Round, Error> {
        let started = Instant::now();
        let Some(covered) = self.compactor.cover(epoch, step).await? else { return Ok(Round::Other) };
        self.epoch = Some(covered.epoch);
        self.covered.extend(step.iter().map(|part| part.name.clone()));
        metrics::compacted(step.iter().map(|part| part.rows).sum(), covered.written, started.elapsed());
        Ok(Round::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use service_kit::stores;
    use service_kit::testing::TestStores;

    #[tokio::test]
    async fn a_round_drops_no_part_that_it_has_not_compacted() {
        let stores = TestStores::fresh().await;
        let client = stores::clickhouse(&stores.clickhouse).unwrap();
        client.query("SYSTEM STOP MERGES retrieval_index").execute().await.unwrap();
        // More than one round compacts.
        for first in [0, STEP_ROWS / 2 + 1] {
            let insert =
                "INSERT INTO observations (site, event_key, version) SELECT 'com.example', cityHash64(number), 1 FROM numbers";
            client.query(&format!("{insert}({first}, {})", STEP_ROWS / 2 + 1)).execute().await.unwrap();
        }
        let mut compaction = Compaction::of_each_shard(&stores.clickhouse).unwrap().remove(0);
        let mut rounds = 0;
        while !compaction.compactor.parts().await.unwrap().is_empty() {
            assert_eq!(compaction.round().await.unwrap(), Round::Done);
            let kept = "SELECT uniqExact(key_low) FROM retrieval_index WHERE site != ''";
            assert_eq!(client.query(kept).fetch_one::<u64>().await.unwrap(), STEP_ROWS + 2, "after round {rounds}");
            rounds += 1;
        }
        assert!(rounds > 1, "one round took everything");
    }
}
