//! Which parts of the delta a compaction may take: over several shards only what has been below the high watermark for longer than a
//! read takes from when it asks for that until it looks at the last of them. What the base has cannot be left out of a read.
//!
//! Must make no part of one server wait.

use clickhouse::Client;
use clickhouse::error::Error;
use futures::future::try_join_all;
use schemas::store::HIGH_WATERMARKS;
use service_kit::retrieval_index::DeltaPart;
use service_kit::settings::ClickHouseSettings;
use service_kit::stores;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// A read that has not begun to answer after 24 s is given up.
const LONGER_THAN_A_READ_BEGINS: Duration = Duration::from_secs(60);

/// What is known of the parts of one shard.
pub(super) struct Ripeness {
    /// None where one server has everything.
    shards: Option<Shards>,
    /// At each look, up to which insert everything was below the high watermark.
    looks: VecDeque<(Instant, u64)>,
    /// The last insert that any look has found.
    last: u64,
}

/// The shard whose parts these are, and all of them: each may be the only one that was told of the high watermark.
struct Shards {
    own: Client,
    all: Vec<Client>,
}

impl Shards {
    /// Parts with a report at or above the high watermark.
    async fn unripe(&self) -> Result<Vec<String>, Error> {
        let mut told = Vec::new();
        for shard in &self.all {
            let statement = format!("SELECT partition, max(high_watermark) FROM {HIGH_WATERMARKS} GROUP BY partition");
            told.push(async move { shard.query(&statement).fetch_all::<(i32, i64)>().await });
        }
        let mut watermarks = BTreeMap::new();
        for (partition, watermark) in try_join_all(told).await?.into_iter().flatten() {
            let highest = watermarks.entry(partition).or_insert(watermark);
            *highest = watermark.max(*highest);
        }
        let below = stores::below_watermark(&watermarks.into_iter().collect::<Vec<_>>());
        let statement = format!("SELECT DISTINCT toString(_part) FROM retrieval_index WHERE tier = 'delta' AND NOT ({below})");
        self.own.query(&statement).fetch_all().await
    }
}

impl Ripeness {
    pub(super) fn of_one_server() -> Self {
        Self { shards: None, looks: VecDeque::new(), last: 0 }
    }

    pub(super) fn of_shard(own: &ClickHouseSettings, all: &ClickHouseSettings) -> anyhow::Result<Self> {
        let shards = Shards { own: stores::clickhouse(own)?, all: stores::clickhouse_shards(all)? };
        Ok(Self { shards: Some(shards), ..Self::of_one_server() })
    }

    /// Those of the parts that may be taken, as they were listed just before.
    pub(super) async fn look(&mut self, parts: &[DeltaPart]) -> Result<Vec<DeltaPart>, Error> {
        let Some(shards) = &self.shards else { return Ok(parts.to_vec()) };
        let unripe = shards.unripe().await?.into_iter().map(|name| DeltaPart { name, rows: 0 });
        let first_unripe = unripe.filter_map(|part| part.blocks()).map(|(first, _)| first).min();
        self.last = parts.iter().filter_map(DeltaPart::blocks).map(|(_, last)| last).fold(self.last, u64::max);
        let below = first_unripe.map_or(self.last, |first| self.last.min(first.saturating_sub(1)));
        let until = self.noted(Instant::now(), below);
        let is_ripe = |part: &&DeltaPart| part.blocks().is_some_and(|(_, last)| last <= until);
        Ok(parts.iter().filter(is_ripe).cloned().collect())
    }

    /// Up to which insert everything has been below the high watermark at every look for so long.
    fn noted(&mut self, now: Instant, whole: u64) -> u64 {
        self.looks.push_back((now, whole));
        let is_old = |look: Option<&(Instant, u64)>| look.is_some_and(|(at, _)| now - *at >= LONGER_THAN_A_READ_BEGINS);
        while is_old(self.looks.get(1)) {
            self.looks.pop_front();
        }
        if !is_old(self.looks.front()) {
            return 0;
        }
        self.looks.iter().map(|(_, whole)| *whole).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemas::store::{CLICKHOUSE_SHARDS_DDL, clickhouse_ddl_of_shard};
    use service_kit::testing::TestStores;

    #[tokio::test]
    async fn a_part_is_unripe_while_a_report_of_it_is_not_below_the_watermark_that_any_shard_has() {
        let (own, other) = (TestStores::fresh().await, TestStores::fresh().await);
        let clients = [&own, &other].map(|stores| stores::clickhouse(&stores.clickhouse).unwrap());
        for client in &clients {
            for statement in [
                "DROP TABLE retrieval_index_delta",
                "DROP TABLE retrieval_index",
                "DROP VIEW publisher_retrievals",
                "DROP TABLE observations",
            ] {
                client.query(statement).execute().await.unwrap();
            }
            for statement in clickhouse_ddl_of_shard().chain(CLICKHOUSE_SHARDS_DDL.iter().map(ToString::to_string)) {
                client.query(&statement).execute().await.unwrap();
            }
        }
        let shards = Shards { own: clients[0].clone(), all: clients.to_vec() };
        let unripe = async |client: &Client, watermark: &str| {
            client.query(&format!("INSERT INTO high_watermarks VALUES ({watermark})")).execute().await.unwrap();
            shards.unripe().await.unwrap().len()
        };
        let report =
            "INSERT INTO observations (site, event_key, version, log_partition, log_offset) VALUES ('com.example', 1, 1, 3, 5)";
        clients[0].query(report).execute().await.unwrap();
        assert_eq!(shards.unripe().await.unwrap().len(), 1);
        assert_eq!([unripe(&clients[0], "0, 9").await, unripe(&clients[0], "3, 5").await], [1, 1]);
        // By the other one alone: the worker died before it told this one.
        assert_eq!(unripe(&clients[1], "3, 6").await, 0);
    }

    #[test]
    fn a_part_is_ripe_when_it_has_been_below_the_watermark_at_every_look_for_so_long() {
        let (begun, mut ripeness) = (Instant::now(), Ripeness::of_one_server());
        let mut at = |seconds, whole| ripeness.noted(begun + Duration::from_secs(seconds), whole);
        assert_eq!([at(0, 5), at(1, 7), at(59, 90)], [0, 0, 0]);
        assert_eq!([at(60, 95), at(61, 99)], [5, 7]);
        // An insert that began before others and shows late.
        assert_eq!([at(62, 6), at(121, 120), at(122, 120)], [6, 6, 6]);
        assert_eq!([at(181, 130), at(183, 130)], [120, 120]);
    }
}
