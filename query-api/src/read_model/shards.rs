//! Where a statement is worked off whose rows are told of one key alone: where the store has several shards, on each of them by
//! itself (docs/operating/scaling.md#clickhouse-shards). Shards have no key in common, so that their rows are all there are.
//!
//! Must leave every statement as it is where there is one server, and must not be asked for what is in another one's text: each shard
//! would ask all of them.

use schemas::store::{OBSERVATIONS, RETRIEVAL_INDEX};
use service_kit::settings::ClickHouseSettings;
use service_kit::stores::CLUSTER;

/// The shards of a store; by default there is one server, which has everything.
#[derive(Clone, Default)]
pub(super) struct Shards {
    /// The database on each of several.
    database: Option<String>,
}

impl Shards {
    pub(super) fn of(settings: &ClickHouseSettings) -> Self {
        Self { database: settings.clickhouse_shards.are_several().then(|| settings.clickhouse_database.clone()) }
    }

    /// Whether one server has everything.
    pub(super) fn is_one(&self) -> bool {
        self.database.is_none()
    }

    /// The rows that this statement has on each shard, all of one moment of that shard.
    pub(super) fn each(&self, statement: &str) -> String {
        let Some(database) = &self.database else { return statement.to_owned() };
        let named = [OBSERVATIONS, RETRIEVAL_INDEX].iter().fold(statement.to_owned(), |text, table| {
            text.replace(&format!("FROM {table} "), &format!("FROM {database}.{table} "))
        });
        format!("SELECT * FROM cluster('{CLUSTER}', view({named}))")
    }
}

/// What a read over several shards goes by besides: one that is away is a failure, and none is left out.
pub(super) const OVER_SHARDS: &[(&str, &str)] = &[("skip_unavailable_shards", "0")];
