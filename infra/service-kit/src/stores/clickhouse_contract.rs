//! Whether a table of ClickHouse is one that counts each report once: its engine, keys and settings as the server tells them.

use anyhow::bail;
use schemas::store::{CLICKHOUSE_REQUIRED_PARTS, CLICKHOUSE_REQUIRED_SETTINGS, TableContract};

/// A table as ClickHouse describes it.
#[derive(clickhouse::Row, serde::Deserialize)]
pub(super) struct Table {
    name: String,
    engine: String,
    sorting_key: String,
    partition_key: String,
    create_table_query: String,
}

pub(super) async fn table(name: &str, client: &clickhouse::Client) -> Result<Option<Table>, clickhouse::error::Error> {
    let statement = "SELECT name, engine, sorting_key, partition_key, create_table_query FROM system.tables \
        WHERE database = currentDatabase() AND name = ?";
    client.query(statement).bind(name).fetch_optional().await
}

impl Table {
    /// What no ALTER can mend: the table is put aside and filled anew from the log.
    pub(super) fn keep(&self, contract: &TableContract, key: &str) -> anyhow::Result<()> {
        let Self { name, engine, sorting_key, partition_key, create_table_query } = self;
        let fix = format!("run RENAME TABLE {name} TO {name}_old, then `telemetry stream-workers rebuild`");
        // A replicated engine names its place first, and the version last.
        let is_versioned = create_table_query.contains(&format!("{engine}({})", contract.version))
            || create_table_query.contains(&format!(", {})", contract.version));
        if !engine.ends_with(contract.engine) || !is_versioned {
            bail!(
                "table {name}: the engine is not {}({}), so repeats would be counted; {fix}",
                contract.engine,
                contract.version
            );
        }
        if sorting_key != key {
            bail!("table {name}: ORDER BY is ({sorting_key}) instead of ({key}), so repeats would be counted; {fix}");
        }
        if !partition_key.is_empty() {
            bail!("table {name}: PARTITION BY {partition_key} keeps repeats apart; {fix}");
        }
        Ok(())
    }

    pub(super) fn keep_settings(&self) -> anyhow::Result<()> {
        let Self { name, engine, create_table_query, .. } = self;
        for (_, setting, least) in CLICKHOUSE_REQUIRED_SETTINGS.iter().filter(|(table, ..)| table == name) {
            // A replicated engine goes by another setting, whose default is enough.
            let replicated = setting.trim_start_matches("non_");
            let (setting, unset) = if engine.starts_with("Replicated") { (replicated, *least) } else { (*setting, 0) };
            let value = create_table_query.split_once(&format!(" {setting} = ")).and_then(|(_, rest)| {
                rest.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse::<u64>().ok())
            });
            if value.unwrap_or(unset) < *least {
                bail!("table {name}: {setting} is below {least}; run ALTER TABLE {name} MODIFY SETTING {setting} = {least}");
            }
        }
        for (_, part) in CLICKHOUSE_REQUIRED_PARTS.iter().filter(|(table, _)| table == name) {
            if !create_table_query.contains(part) {
                bail!("table {name} has no {part}; add it as in schemas/clickhouse/{name}.sql");
            }
        }
        Ok(())
    }
}
