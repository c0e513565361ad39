//! Which parts of the delta a compaction may take: over several shards only what all of them have had for longer than a read takes
//! from when it asks how far the shards are until it looks at the last of them. What the base has cannot be left out of a read.
//!
//! Must make no part of one server wait.

use clickhouse::Client;
use clickhouse::error::Error;
use service_kit::retrieval_index::DeltaPart;
use service_kit::settings::ClickHouseSettings;
use service_kit::stores;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A read that has not begun to answer after 24 s is given up.
const LONGER_THAN_A_READ_BEGINS: Duration = Duration::from_secs(60);

/// Parts with reports of requests that some shard may lack a part of, wherever on the log they are.
const TORN: &str = "SELECT DISTINCT toString(_part) FROM retrieval_index WHERE tier = 'delta' AND (intDiv(received, 4096), org) IN ( \
    SELECT received, toUInt128(org) FROM requests_under_way AS request \
    LEFT JOIN (SELECT partition, max(next) AS until FROM log_through GROUP BY partition) AS through USING (partition) \
    GROUP BY received, org HAVING min(request.place >= through.until))";

/// What is known of the parts of one shard.
pub(super) struct Ripeness {
    /// None where one server has everything.
    shard: Option<Client>,
    /// At each look, up to which insert everything was on all shards.
    looks: VecDeque<(Instant, u64)>,
    /// The last insert that any look has found.
    last: u64,
}

impl Ripeness {
    pub(super) fn of_one_server() -> Self {
        Self { shard: None, looks: VecDeque::new(), last: 0 }
    }

    pub(super) fn of_shard(settings: &ClickHouseSettings) -> anyhow::Result<Self> {
        Ok(Self { shard: Some(stores::clickhouse(settings)?), ..Self::of_one_server() })
    }

    /// Those of the parts that may be taken, as they were listed just before.
    pub(super) async fn look(&mut self, parts: &[DeltaPart]) -> Result<Vec<DeltaPart>, Error> {
        let Some(shard) = &self.shard else { return Ok(parts.to_vec()) };
        let torn: Vec<String> = shard.query(TORN).fetch_all().await?;
        let torn = torn.into_iter().map(|name| DeltaPart { name, rows: 0 });
        let first_torn = torn.filter_map(|part| part.blocks()).map(|(first, _)| first).min();
        self.last = parts.iter().filter_map(DeltaPart::blocks).map(|(_, last)| last).fold(self.last, u64::max);
        let whole = first_torn.map_or(self.last, |first| self.last.min(first.saturating_sub(1)));
        let until = self.noted(Instant::now(), whole);
        let is_ripe = |part: &&DeltaPart| part.blocks().is_some_and(|(_, last)| last <= until);
        Ok(parts.iter().filter(is_ripe).cloned().collect())
    }

    /// Up to which insert everything has been on all shards at every look for so long.
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
    use schemas::store::CLICKHOUSE_SHARDS_DDL;
    use service_kit::testing::TestStores;

    #[tokio::test]
    async fn a_part_is_torn_while_a_request_of_it_is_through_at_none_of_its_places() {
        let stores = TestStores::fresh().await;
        let client = stores::clickhouse(&stores.clickhouse).unwrap();
        let run = async |statement: &str| client.query(statement).execute().await.unwrap();
        for statement in CLICKHOUSE_SHARDS_DDL {
            run(statement).await;
        }
        let torn = async |place: &str, through: &str| {
            run(&format!(
                "INSERT INTO requests_under_way (partition, place, received, org) VALUES ({place}, 7, toUUID('00000000-0000-0000-0000-000000000001'))"
            ))
            .await;
            run(&format!("INSERT INTO log_through VALUES ({through})")).await;
            client.query(TORN).fetch_all::<String>().await.unwrap().len()
        };
        run("INSERT INTO observations (site, event_key, org_id, version) \
             VALUES ('com.example', 1, toUUID('00000000-0000-0000-0000-000000000001'), bitNot(toUInt64(7 * 4096 + 5)))")
        .await;
        assert_eq!([torn("0, 5", "0, 5").await, torn("1, 5", "2, 9").await], [1, 1]);
        assert_eq!([torn("0, 5", "0, 6").await, torn("0, 9", "0, 6").await, torn("3, 2", "2, 9").await], [0, 0, 0]);
    }

    #[test]
    fn a_part_is_ripe_when_all_shards_have_had_it_at_every_look_for_so_long() {
        let (begun, mut ripeness) = (Instant::now(), Ripeness::of_one_server());
        let mut at = |seconds, whole| ripeness.noted(begun + Duration::from_secs(seconds), whole);
        assert_eq!([at(0, 5), at(1, 7), at(59, 90)], [0, 0, 0]);
        assert_eq!([at(60, 95), at(61, 99)], [5, 7]);
        // An insert that began before others and shows late is torn.
        assert_eq!([at(62, 6), at(121, 120), at(122, 120)], [6, 6, 6]);
        assert_eq!([at(181, 130), at(183, 130)], [120, 120]);
    }
}
