//! Where a statement is worked off whose rows are told of one key alone: where the store has several shards, on each of them by
//! itself (docs/operating/scaling.md#clickhouse-shards). Shards have no key in common, so that their rows are all there are.
//!
//! Must leave every statement as it is where there is one server, and must not be asked for what is in another one's text: each shard
//! would ask all of them.

use schemas::store::{LOG_THROUGH, OBSERVATIONS, REQUESTS_UNDER_WAY, RETRIEVAL_INDEX};
use service_kit::settings::ClickHouseSettings;
use service_kit::stores::CLUSTER;

/// The shards of a store; by default there is one server, which has everything.
#[derive(Clone, Default)]
pub(super) struct Shards {
    /// The database on each of several.
    database: Option<String>,
    /// How far the log is on all of them, by partition.
    through: Vec<(i32, i64)>,
}

impl Shards {
    pub(super) fn of(settings: &ClickHouseSettings) -> Self {
        let database = settings.clickhouse_shards.are_several().then(|| settings.clickhouse_database.clone());
        Self { database, through: Vec::new() }
    }

    /// The same for a read that begins when the log was so far on all of them.
    pub(super) fn through(&self, through: Vec<(i32, i64)>) -> Self {
        Self { through, ..self.clone() }
    }

    /// On a report, by when it was received and by whom, in front of it ` AND `: no shard may lack a part of its request. One that is on the
    /// log more than once is whole where it is at any of its places. Its row is looked at before what says so, which is written first:
    /// ClickHouse finds the parts of tables in the order in which they are named.
    pub(super) fn is_whole(&self, received_us: &str, org: &str) -> String {
        if self.is_one() {
            return String::new();
        }
        let (partitions, next): (Vec<_>, Vec<_>) = self.through.iter().copied().unzip();
        let next = if partitions.is_empty() {
            "0".to_owned()
        } else {
            format!("transform(partition, CAST({partitions:?}, 'Array(Int32)'), CAST({next:?}, 'Array(Int64)'), toInt64(0))")
        };
        format!(
            " AND ({received_us}, {org}) NOT IN (SELECT received, toUInt128(org) FROM {REQUESTS_UNDER_WAY} \
               GROUP BY received, org HAVING min(place >= {next}))"
        )
    }

    /// The same on a row of the table of observations.
    pub(super) fn is_whole_observation(&self) -> String {
        self.is_whole("bitShiftRight(bitNot(version), 12)", "toUInt128(org_id)")
    }

    /// Whether one server has everything.
    pub(super) fn is_one(&self) -> bool {
        self.database.is_none()
    }

    /// The rows that this statement has on each shard, all of one moment of that shard.
    pub(super) fn each(&self, statement: &str) -> String {
        let Some(database) = &self.database else { return statement.to_owned() };
        let named = [OBSERVATIONS, RETRIEVAL_INDEX, REQUESTS_UNDER_WAY].iter().fold(statement.to_owned(), |text, table| {
            text.replace(&format!("FROM {table} "), &format!("FROM {database}.{table} "))
        });
        format!("SELECT * FROM cluster('{CLUSTER}', view({named}))")
    }
}

/// How far the log is on all shards, by partition.
pub(super) fn log_through() -> String {
    format!("SELECT partition, max(next) AS next FROM {LOG_THROUGH} GROUP BY partition")
}

/// What a read over several shards goes by besides: one that is away is a failure, and none is left out.
pub(super) const OVER_SHARDS: &[(&str, &str)] = &[("skip_unavailable_shards", "0")];
