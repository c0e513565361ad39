//! Replays the newest part of the log repeatedly during faults. Replays must not change stored data.

use super::cluster::Cluster;
use crate::test_bed::{LaunchConfig, Service};
use anyhow::Context as _;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use futures::future::join_all;
use service_kit::clock::Clock;
use service_kit::databases;
use service_kit::settings::ClickHouseSettings;
use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Each replay starts this long ago.
const NEWEST: TimeDelta = TimeDelta::seconds(5);
const PAUSE: Duration = Duration::from_secs(5);
/// The last replay, without faults, starts this long ago.
const AT_THE_END: TimeDelta = TimeDelta::minutes(1);
/// Time limit for the last replay and earlier pending ones.
const PATIENCE: Duration = Duration::from_secs(180);

/// Number of requested replays that are pending, done and failed, followed by the events read, rows changed, unreadable records and
/// messages.
const STANDING: &str = "SELECT countIf(status IN ('waiting', 'running')), countIf(status = 'done'), countIf(status = 'failed'), \
    sum(events), sum(changed_events) + sum(changed_reports), sum(unreadable), \
    arrayStringConcat(groupUniqArrayIf(3)(message, message != ''), '; ') FROM replays FINAL";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Replayed {
    under_way: u64,
    done: u64,
    /// Replays that a writer gave up on, for example because the log was unavailable.
    failed: u64,
    events: u64,
    changed: u64,
    unreadable: u64,
    messages: String,
}

impl AddAssign for Replayed {
    fn add_assign(&mut self, more: Self) {
        self.under_way += more.under_way;
        self.done += more.done;
        self.failed += more.failed;
        self.events += more.events;
        self.changed += more.changed;
        self.unreadable += more.unreadable;
        self.messages += &more.messages;
    }
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { done, failed, events, changed, messages, .. } = self;
        write!(f, "{done} done, {failed} failed; {events} events read, {changed} rows changed")?;
        if messages.is_empty() { Ok(()) } else { write!(f, "; {messages}") }
    }
}

impl Replayed {
    pub(super) fn wrong(&self) -> Vec<String> {
        let Self { under_way, done, events, changed, unreadable, .. } = self;
        let mut wrong = Vec::new();
        if *under_way > 0 {
            wrong.push(format!("{under_way} replays did not finish"));
        }
        if *changed > 0 {
            wrong.push(format!("replays changed {changed} rows, although everything they read was stored"));
        }
        if *unreadable > 0 {
            wrong.push(format!("replays could not read {unreadable} records"));
        }
        if *done == 0 || *events == 0 {
            wrong.push(format!("{done} replays read {events} events: nothing was tested"));
        }
        wrong
    }
}

/// Requests replays of each shard until `stop`.
pub(super) async fn keep_replaying(cluster: Arc<Cluster>, stop: CancellationToken) {
    join_all(cluster.commands.iter().map(|shard| keep_requesting(shard, &stop))).await;
}

async fn keep_requesting(shard: &LaunchConfig, stop: &CancellationToken) {
    while !stop.is_cancelled() {
        let replay = async {
            // The command fails while a server is unavailable. The replay is processed nevertheless if it was requested.
            let _ = replay_from(shard, Clock::System.now() - NEWEST).await;
            sleep(PAUSE).await;
        };
        stop.run_until_cancelled(replay).await;
    }
}

async fn replay_from(shard: &LaunchConfig, from: DateTime<Utc>) -> anyhow::Result<String> {
    shard.run(Service::Worker, &["replay", "--from", &from.to_rfc3339_opts(SecondsFormat::Millis, true)]).await
}

/// Replays the end of the load after all earlier requests. Returns the counts over all replays.
pub(super) async fn replay_end_of_load(cluster: &Cluster, end_of_load: DateTime<Utc>) -> anyhow::Result<Replayed> {
    let mut all = Replayed::default();
    for shard in &cluster.commands {
        let last = timeout(PATIENCE, replay_from(shard, end_of_load - AT_THE_END)).await;
        last.with_context(|| format!("the last replay is not done after {PATIENCE:?}"))??;
        all += read(&shard.stores.clickhouse).await?;
    }
    Ok(all)
}

async fn read(tables: &ClickHouseSettings) -> anyhow::Result<Replayed> {
    let found: (u64, u64, u64, u64, u64, u64, String) = databases::clickhouse(tables)?.query(STANDING).fetch_one().await?;
    let (under_way, done, failed, events, changed, unreadable, messages) = found;
    Ok(Replayed { under_way, done, failed, events, changed, unreadable, messages })
}

#[cfg(test)]
mod tests {
    use super::*;
    use service_kit::testing::TestStores;

    #[tokio::test]
    async fn reports_replays_that_change_rows() {
        let tables = TestStores::fresh().await.clickhouse;
        let client = databases::clickhouse(&tables).unwrap();
        let insert = async |version: u64, status: &str, events: u64, changed: u64| {
            let row = "INSERT INTO replays (topic, id, version, status, events, changed_events, changed_reports) \
                       SELECT 'topic', toUUID('00000000-0000-0000-0000-000000000001'), ?, ?, ?, ?, 0";
            client.query(row).bind(version).bind(status).bind(events).bind(changed).execute().await.unwrap();
            read(&tables).await.unwrap()
        };
        assert_eq!(read(&tables).await.unwrap().wrong(), ["0 replays read 0 events: nothing was tested"]);
        assert_eq!(insert(1, "running", 5, 0).await.under_way, 1);
        let done = insert(2, "done", 9, 0).await;
        assert_eq!(done, Replayed { done: 1, events: 9, ..Replayed::default() });
        assert_eq!(done.wrong(), [""; 0]);
        let changed = insert(3, "done", 9, 2).await;
        assert_eq!(changed.wrong(), ["replays changed 2 rows, although everything they read was stored"]);
    }
}
