//! Where a statement is worked off whose rows are told of one key alone: where the store has several shards, on each of them by
//! itself (docs/operating/scaling.md#clickhouse-shards). Shards have no key in common, so that their rows are all there are.
//!
//! Must leave every statement as it is where there is one server, and must not be asked for what is in another one's text: each shard
//! would ask all of them.

use schemas::store::{HIGH_WATERMARKS, OBSERVATIONS, RETRIEVAL_INDEX};
use service_kit::settings::ClickHouseSettings;
use service_kit::stores::{CLUSTER, below_watermark};

/// The shards of a store; by default there is one server, which has everything.
#[derive(Clone, Default)]
pub(super) struct Shards {
    /// The database on each of several.
    database: Option<String>,
    /// How far all of them have the log, by partition.
    watermarks: Vec<(i32, i64)>,
}

impl Shards {
    pub(super) fn of(settings: &ClickHouseSettings) -> Self {
        let database = settings.clickhouse_shards.are_several().then(|| settings.clickhouse_database.clone());
        Self { database, watermarks: Vec::new() }
    }

    /// The same for a read that begins when the high watermarks are these.
    pub(super) fn below(&self, watermarks: Vec<(i32, i64)>) -> Self {
        Self { watermarks, ..self.clone() }
    }

    /// On a report, in front of it ` AND `: it is below the high watermark, so that every shard has its part of the request.
    pub(super) fn is_below_watermark(&self) -> String {
        if self.is_one() { String::new() } else { format!(" AND {}", below_watermark(&self.watermarks)) }
    }

    /// Of each observer the first report of those that this finds and a read may show, as what stands after FROM. What they are found by is
    /// part of the identity of an observation, so that of each either every repeat is found or none.
    pub(super) fn first_reports(&self, found: &str) -> String {
        if self.is_one() {
            return format!("{OBSERVATIONS} FINAL PREWHERE {found}");
        }
        let is_below = self.is_below_watermark();
        format!(
            "(SELECT * FROM {OBSERVATIONS} PREWHERE {found}{is_below} ORDER BY version DESC LIMIT 1 BY site, event_key, org_id, observer)"
        )
    }

    /// How far all shards have the log, by partition, as any of them says: a worker that was ended may have told one alone.
    pub(super) fn high_watermarks(&self) -> String {
        let of_each = self.each(&format!("SELECT partition, high_watermark FROM {HIGH_WATERMARKS} "));
        format!("SELECT partition, max(high_watermark) AS high_watermark FROM ({of_each}) GROUP BY partition")
    }

    /// Whether one server has everything.
    pub(super) fn is_one(&self) -> bool {
        self.database.is_none()
    }

    /// The rows that this statement has on each shard, all of one moment of that shard.
    pub(super) fn each(&self, statement: &str) -> String {
        let Some(database) = &self.database else { return statement.to_owned() };
        let named = [OBSERVATIONS, RETRIEVAL_INDEX, HIGH_WATERMARKS].iter().fold(statement.to_owned(), |text, table| {
            text.replace(&format!("FROM {table} "), &format!("FROM {database}.{table} "))
        });
        format!("SELECT * FROM cluster('{CLUSTER}', view({named}))")
    }
}

/// What a read over several shards goes by besides: one that is away is a failure, and none is left out.
pub(super) const OVER_SHARDS: &[(&str, &str)] = &[("skip_unavailable_shards", "0")];
