//! Checks the tables of each shard directly, without query-api and the proxies: partial requests, lost, duplicate and phantom reports, and
//! tables that contradict each other. After each takeover, looks for events with two live rows.
//!
//! It doesn't use the services' SQL, because it would share their mistakes.

use super::operations::items;
use super::sender::LoadState;
use crate::drive::lock;
use crate::oracle::Rule;
use crate::workload::{NUMBER, ROLES};
use anyhow::Context as _;
use clickhouse::Client;
use std::collections::HashSet;
use std::time::Duration;
use tokio::time::timeout;

const DEADLINE: Duration = Duration::from_secs(5);
/// Time limit for a query over all keys.
const LONG_DEADLINE: Duration = Duration::from_secs(30);
/// Maximum age in seconds of requests that are checked during the run.
const LATELY: u32 = 45;

/// Recently accepted requests. All reports in a request have the same acceptance time.
const REQUESTS: &str = "SELECT url, transform(one_role, [1, 2, 3, 4], ['agent', 'edge', 'origin', 'index'], '') AS role, count() \
    FROM events FINAL ARRAY JOIN reports.role AS one_role, reports.organization AS one_org, reports.received AS one_received \
    WHERE bitShiftRight(one_received, 12) > toUnixTimestamp64Micro(now64(6)) - 1000000 * ? \
    GROUP BY url, one_org, one_role, bitShiftRight(one_received, 12) SETTINGS do_not_merge_across_partitions_select_final = 1";
const REPORTS: &str = "SELECT url, transform(source_role, [1, 2, 3, 4], ['agent', 'edge', 'origin', 'index'], '') AS role, \
    JSONExtractUInt(data, ?), event_id FROM reports FINAL WHERE is_issuers = 0 SETTINGS do_not_merge_across_partitions_select_final = 1";
const NEWEST_EPOCH: &str = "SELECT max(epoch) FROM writers";
const DOUBLE_KEYS: &str = "SELECT count() FROM (SELECT key FROM events FINAL GROUP BY key HAVING count() > 1) \
    SETTINGS do_not_merge_across_partitions_select_final = 1";
/// Number of events with two live rows, of reports in events without a row of their own, and of report rows that belong to no event.
const CONTRADICTIONS: &str = "WITH \
      entries AS (SELECT if(one = 0, key, one) AS identity FROM events FINAL ARRAY JOIN reports.identity AS one), \
      written AS (SELECT identity FROM reports FINAL WHERE is_issuers = 0) \
    SELECT ifNull((SELECT count() FROM (SELECT key FROM events FINAL GROUP BY key HAVING count() > 1)), 0), \
      ifNull((SELECT count() FROM entries WHERE identity NOT IN written), 0), \
      ifNull((SELECT count() FROM written WHERE identity NOT IN entries), 0) \
    SETTINGS do_not_merge_across_partitions_select_final = 1";

pub(super) struct TableChecks {
    shards: Vec<ShardTables>,
}

struct ShardTables {
    client: Client,
    /// Epoch of the last takeover after which keys were counted.
    counted: u64,
}

/// One tenant's reports that were found, by number and role.
#[derive(Default)]
struct ObservedReports(Vec<[bool; ROLES.len()]>);

impl TableChecks {
    pub(super) fn new(shards: Vec<Client>) -> Self {
        Self { shards: shards.into_iter().map(ShardTables::new).collect() }
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Checks recently accepted requests. Returns `None` if a shard doesn't respond.
    pub(super) async fn check_recent_requests(&self, front: &LoadState) -> Option<()> {
        let mut are_answered = true;
        for tables in &self.shards {
            are_answered &= tables.check_recent(front).await.is_some();
        }
        are_answered.then_some(())
    }

    /// Looks for events with two live rows in each shard that has had a takeover since the last check. Returns for each of these shards
    /// whether it responded. If it didn't, the next call checks it again.
    pub(super) async fn check_after_takeovers(&mut self, front: &LoadState) -> Vec<bool> {
        let mut looked = Vec::new();
        for (tables, number) in self.shards.iter_mut().zip(1..) {
            let Some(counted) = tables.double_keys_after_takeover().await else { continue };
            looked.push(counted.is_ok());
            if let Ok(keys @ 1..) = counted {
                let what =
                    format!("shard {number}: {keys} events have two live rows after the takeover of epoch {}", tables.counted);
                lock(&front.oracle).report_violation(0, Rule::Double, what);
            }
        }
        looked
    }

    pub(super) async fn check_everything(&self, front: &LoadState) -> anyhow::Result<()> {
        let mut found: Vec<ObservedReports> = front.tenants.iter().map(|_| ObservedReports::default()).collect();
        let mut pages = HashSet::new();
        for (tables, number) in self.shards.iter().zip(1..) {
            tables.check_consistency().await.with_context(|| format!("shard {number}"))?;
            tables.check_reports(front, &mut found, &mut pages).await?;
        }
        for (tenant, found) in found.iter().enumerate() {
            let mut oracle = lock(&front.oracle);
            let missing = oracle.ledger(tenant).all_acked().filter(|(number, role)| !found.has(*number, *role));
            let missing: Vec<(u32, usize)> = missing.collect();
            if let Some((number, role)) = missing.first() {
                let what = format!("{} reports, the first is event {number} as {}", missing.len(), ROLES[*role].as_str());
                oracle.report_violation(tenant, Rule::Lost, what);
            }
        }
        Ok(())
    }
}

impl ShardTables {
    fn new(client: Client) -> Self {
        Self { client, counted: 0 }
    }

    async fn check_recent(&self, front: &LoadState) -> Option<()> {
        let asked = self.client.query(REQUESTS).bind(LATELY).fetch_all::<(String, String, u64)>();
        for (url, role, count) in timeout(DEADLINE, asked).await.ok()?.ok()? {
            if front.logs.is_page(&url) {
                continue;
            }
            let Some((tenant, request, role)) = front.place(&url, &role) else {
                lock(&front.oracle).report_violation(0, Rule::Foreign, format!("{url} is in the table, but was not sent"));
                continue;
            };
            let items = items(&front.shape, tenant, role, request);
            let mut oracle = lock(&front.oracle);
            if items.len() as u64 != count {
                let what = format!("{url} as {}: {count} rows of a request of {}", ROLES[role].as_str(), items.len());
                oracle.report_violation(tenant, Rule::Torn, what);
            }
            if !items.iter().all(|number| oracle.ledger(tenant).may_show(*number, role)) {
                oracle.report_violation(tenant, Rule::Phantom, format!("{url} as {} is in the table", ROLES[role].as_str()));
            }
        }
        Some(())
    }

    /// Returns the number of keys with two live rows if there has been a takeover since the last count.
    async fn double_keys_after_takeover(&mut self) -> Option<anyhow::Result<u64>> {
        let newest = timeout(DEADLINE, self.client.query(NEWEST_EPOCH).fetch_one::<u64>()).await.ok()?.ok()?;
        if newest <= self.counted {
            return None;
        }
        let counting = async { anyhow::Ok(timeout(LONG_DEADLINE, self.client.query(DOUBLE_KEYS).fetch_one::<u64>()).await??) };
        let counted = counting.await;
        if counted.is_ok() {
            self.counted = newest;
        }
        Some(counted)
    }

    async fn check_consistency(&self) -> anyhow::Result<()> {
        let found: (u64, u64, u64) = self.client.query(CONTRADICTIONS).fetch_one().await?;
        anyhow::ensure!(
            found == (0, 0, 0),
            "{} events have two live rows, {} entries of events have no report, {} reports are in no event",
            found.0,
            found.1,
            found.2
        );
        Ok(())
    }

    async fn check_reports(
        &self,
        front: &LoadState,
        found: &mut [ObservedReports],
        pages: &mut HashSet<String>,
    ) -> anyhow::Result<()> {
        let mut reports = self.client.query(REPORTS).bind(NUMBER).fetch::<(String, String, u64, String)>()?;
        while let Some((url, role, number, id)) = reports.next().await? {
            if front.logs.is_page(&url) {
                if !pages.insert(url.clone()) {
                    lock(&front.oracle).report_violation(0, Rule::Double, format!("{url} is in the table twice"));
                }
                continue;
            }
            let place = front.place(&url, &role);
            let number = u32::try_from(number)?;
            let Some((tenant, _, role)) =
                place.filter(|(tenant, _, role)| front.shape.report_id(*tenant, *role, number).to_string() == id)
            else {
                lock(&front.oracle).report_violation(0, Rule::Foreign, format!("{url}: {id} is in the table, but was not sent"));
                continue;
            };
            let mut oracle = lock(&front.oracle);
            if !oracle.ledger(tenant).may_show(number, role) {
                oracle.report_violation(
                    tenant,
                    Rule::Phantom,
                    format!("event {number} as {} is in the table", ROLES[role].as_str()),
                );
            }
            if !found[tenant].add(number, role) {
                oracle.report_violation(
                    tenant,
                    Rule::Double,
                    format!("event {number} as {} is in the table twice", ROLES[role].as_str()),
                );
            }
        }
        Ok(())
    }
}

impl LoadState {
    /// Returns a row's tenant, request and role, or `None` if no tenant sent it.
    fn place(&self, url: &str, role: &str) -> Option<(usize, u32, usize)> {
        let role = ROLES.iter().position(|known| known.as_str() == role)?;
        (0..self.tenants.len()).find_map(|tenant| Some((tenant, self.request_of(tenant, url)?, role)))
    }
}

impl ObservedReports {
    /// Returns false if the report was already added.
    fn add(&mut self, number: u32, role: usize) -> bool {
        let place = number as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, [false; ROLES.len()]);
        }
        !std::mem::replace(&mut self.0[place][role], true)
    }

    fn has(&self, number: u32, role: usize) -> bool {
        self.0.get(number as usize).is_some_and(|roles| roles[role])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use service_kit::databases::clickhouse;
    use service_kit::testing::TestStores;

    #[tokio::test]
    async fn finds_events_with_two_rows_after_takeovers() {
        let client = clickhouse(&TestStores::fresh().await.clickhouse).unwrap();
        let mut tables = ShardTables::new(client.clone());
        let take_over = async |epoch: u64| {
            client.query("INSERT INTO writers (epoch) SELECT ?").bind(epoch).execute().await.unwrap();
        };
        let mut count = async || tables.double_keys_after_takeover().await.map(Result::unwrap);
        assert_eq!(count().await, None, "there is no writer");
        take_over(1).await;
        assert_eq!(count().await, Some(0));
        // The same key at two times.
        let rows = "INSERT INTO events (home, site, at, key, version) \
            SELECT 202601, 'com.example', toDateTime64(number, 3, 'UTC'), 7, 1 FROM numbers(2)";
        client.query(rows).execute().await.unwrap();
        assert_eq!(count().await, None, "no writer has taken over");
        take_over(2).await;
        assert_eq!(count().await, Some(1));
        assert_eq!(count().await, None);
    }
}
