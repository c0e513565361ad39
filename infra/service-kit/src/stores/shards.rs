//! Which shard a server is: said in the comment of its table of observations, so that none takes rows of another's keys.
//!
//! Must not change a server that has everything.

use crate::connections::{absent_clickhouse, address, clickhouse};
use crate::settings::ClickHouseSettings;
use anyhow::{Context, bail, ensure};
use schemas::store::{CLICKHOUSE_DDL, CLICKHOUSE_SHARDS_DDL, HIGH_WATERMARKS, OBSERVATIONS, SortingKey, clickhouse_ddl_of_shard};
use std::collections::BTreeSet;

/// What the shards are called together in the configuration of each server (`remote_servers`).
pub const CLUSTER: &str = "telemetry";

/// A server among all of them.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) number: usize,
    pub(super) of: usize,
}

impl Place {
    /// The statements that make the tables of a server in this place.
    pub(super) fn ddl(self) -> Vec<String> {
        let texts = |statements: &[&str]| statements.iter().map(ToString::to_string).collect::<Vec<_>>();
        let own = if self.of == 1 {
            texts(CLICKHOUSE_DDL)
        } else {
            clickhouse_ddl_of_shard().chain(texts(CLICKHOUSE_SHARDS_DDL)).collect()
        };
        own.into_iter().chain(texts(store::tables::DDL)).collect()
    }

    pub(super) fn sorting_key(self, key: SortingKey) -> &'static str {
        if self.of > 1 { key.shard } else { key.one_server }
    }

    /// What the comment of its table begins with.
    fn said(self) -> String {
        format!("shard {} of {}, ", self.number + 1, self.of)
    }

    fn is_said_by(self, comment: &str) -> bool {
        if self.of == 1 { !comment.starts_with("shard ") } else { comment.starts_with(&self.said()) }
    }
}

/// A client of each server, in order.
pub fn clickhouse_shards(settings: &ClickHouseSettings) -> anyhow::Result<Vec<clickhouse::Client>> {
    settings.each_shard().iter().map(clickhouse).collect()
}

/// On a report in a table of a shard: it is below the high watermark of its partition, so that every shard has its part of the request.
pub fn below_watermark(watermarks: &[(i32, i64)]) -> String {
    if watermarks.is_empty() {
        return "log_offset < 0".to_owned();
    }
    let (partitions, offsets): (Vec<_>, Vec<_>) = watermarks.iter().copied().unzip();
    format!(
        "log_offset < transform(log_partition, CAST({partitions:?}, 'Array(Int32)'), CAST({offsets:?}, 'Array(Int64)'), toInt64(0))"
    )
}

/// Refuses to do what is not done over shards.
pub fn refuse_shards(settings: &ClickHouseSettings, what: &str) -> anyhow::Result<()> {
    ensure!(!settings.clickhouse_shards.are_several(), "CLICKHOUSE_SHARDS: {what} over several servers; name one");
    Ok(())
}

/// Refuses addresses that are not those of several servers, one of which is asked.
pub(super) fn check_setting(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    let urls = settings.clickhouse_shards.urls();
    if urls.is_empty() {
        return Ok(());
    }
    let at = |url: &String| address(&ClickHouseSettings::at(url.as_str(), ""));
    let addresses: Vec<String> = urls.iter().map(at).collect();
    let asked = at(&settings.clickhouse_url);
    ensure!(!addresses.contains(&String::new()), "CLICKHOUSE_SHARDS: not HTTP addresses; write http://user:password@host:8123,…");
    ensure!(addresses.iter().collect::<BTreeSet<_>>().len() == urls.len(), "CLICKHOUSE_SHARDS: an address stands there twice");
    ensure!(
        addresses.contains(&asked),
        "CLICKHOUSE_URL={asked}: not one of CLICKHOUSE_SHARDS={}; name one of them, or leave CLICKHOUSE_SHARDS out",
        addresses.join(",")
    );
    Ok(())
}

async fn comment(settings: &ClickHouseSettings) -> anyhow::Result<String> {
    let statement = "SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = ?";
    let found = clickhouse(settings)?.query(statement).bind(OBSERVATIONS).fetch_one().await;
    found.map_err(|error| absent_clickhouse(settings, &error))
}

/// Makes an empty server the shard in this place, and one of its own kind.
pub(super) async fn take(settings: &ClickHouseSettings, place: Place) -> anyhow::Result<()> {
    if place.of == 1 || place.is_said_by(&comment(settings).await?) {
        return check(settings, place).await;
    }
    let client = clickhouse(settings)?;
    let rows: u64 = client.query(&format!("SELECT count() FROM {OBSERVATIONS}")).fetch_one().await?;
    if rows > 0 {
        return check(settings, place).await;
    }
    let comment = format!("{}{}", place.said(), uuid::Uuid::new_v4());
    let statement = format!("ALTER TABLE {OBSERVATIONS} MODIFY COMMENT '{comment}'");
    client.query(&statement).execute().await.context("CLICKHOUSE_SHARDS: a server cannot be made a shard")
}

/// Refuses a server that is in another place.
pub(super) async fn check(settings: &ClickHouseSettings, place: Place) -> anyhow::Result<()> {
    let comment = comment(settings).await?;
    if place.is_said_by(&comment) {
        return if place.of > 1 { check_own_table(settings).await } else { Ok(()) };
    }
    let said = comment.split_once(',').map_or("no shard", |(said, _)| said);
    bail!(
        "CLICKHOUSE_SHARDS: {} is {said}, and would be shard {} of {}: where a key lies goes by the order and the number of servers; set them as they were, or fill new servers by `telemetry stream-workers rebuild`",
        address(settings),
        place.number + 1,
        place.of
    )
}

/// Refuses a shard without the table that it has besides.
async fn check_own_table(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    let statement = "SELECT count() > 0 FROM system.tables WHERE database = currentDatabase() AND name = ?";
    let found = clickhouse(settings)?.query(statement).bind(HIGH_WATERMARKS).fetch_one::<bool>().await;
    ensure!(
        found.map_err(|error| absent_clickhouse(settings, &error))?,
        "{}: table {HIGH_WATERMARKS} does not exist: create it with `telemetry stream-workers prepare`",
        address(settings)
    );
    Ok(())
}

/// Drops what shards say of how far they have the log, where it is: an empty store may be filled from another one. `prepare` makes the
/// table anew.
pub async fn forget_watermarks(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    for shard in settings.each_shard().iter().filter(|_| settings.clickhouse_shards.are_several()) {
        let server = clickhouse(shard)?.with_database("system");
        let statement = format!("DROP TABLE IF EXISTS {}.{HIGH_WATERMARKS} SYNC", settings.clickhouse_database);
        server.query(&statement).execute().await.map_err(|error| absent_clickhouse(shard, &error))?;
    }
    Ok(())
}

/// Refuses a server that does not ask all shards, and no others, where a read asks all of them.
pub async fn check_cluster(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    if !settings.clickhouse_shards.are_several() {
        return Ok(());
    }
    let mut known = Vec::new();
    for shard in settings.each_shard() {
        known.push(comment(&shard).await?);
    }
    let statement = format!(
        "SELECT comment FROM cluster('{CLUSTER}', view(SELECT comment FROM system.tables WHERE database = '{}' AND name = '{OBSERVATIONS}'))",
        settings.clickhouse_database
    );
    let asked: Vec<String> = clickhouse(settings)?.query(&statement).fetch_all().await.with_context(|| {
        format!("CLICKHOUSE_URL={}: the cluster {CLUSTER} of its configuration cannot be asked", address(settings))
    })?;
    let sorted = |mut comments: Vec<String>| {
        comments.sort_unstable();
        comments
    };
    ensure!(
        sorted(known) == sorted(asked),
        "CLICKHOUSE_URL={}: the cluster {CLUSTER} in its configuration (remote_servers) is not the servers of CLICKHOUSE_SHARDS, each once",
        address(settings)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn over(shards: &str) -> ClickHouseSettings {
        ClickHouseSettings {
            clickhouse_shards: shards.parse().unwrap(),
            ..ClickHouseSettings::at("http://u:hunter2@a.test:8123", "telemetry")
        }
    }

    #[test]
    fn what_is_not_done_over_shards_is_refused_and_done_on_one_server() {
        for one in ["", "http://a.test:8123"] {
            refuse_shards(&over(one), "nothing is done").unwrap();
        }
        let said = refuse_shards(&over("http://a.test:8123,http://b.test:8123"), "nothing is done").unwrap_err().to_string();
        assert_eq!(said, "CLICKHOUSE_SHARDS: nothing is done over several servers; name one");
    }

    #[test]
    fn addresses_are_those_of_servers_each_once_and_one_of_them_is_asked() {
        for taken in ["", "http://u:hunter2@a.test:8123", "http://b.test:8123,http://a.test:8123"] {
            check_setting(&over(taken)).unwrap();
        }
        for (refused, why) in [
            ("http://b.test:8123", "not one of CLICKHOUSE_SHARDS=b.test:8123;"),
            ("a.test,b.test", "not HTTP addresses"),
            ("http://a.test:8123,http://u:hunter2@a.test:8123", "twice"),
        ] {
            let said = check_setting(&over(refused)).unwrap_err().to_string();
            assert!(said.contains(why) && !said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn a_server_is_told_apart_by_what_its_table_says() {
        let of = |number, of| Place { number, of };
        assert!(of(0, 1).is_said_by("") && of(0, 1).is_said_by("mine") && !of(0, 1).is_said_by("shard 1 of 2, 7"));
        assert!(of(1, 2).is_said_by("shard 2 of 2, 7") && !of(1, 2).is_said_by("") && !of(1, 2).is_said_by("shard 2 of 20, 7"));
    }
}
