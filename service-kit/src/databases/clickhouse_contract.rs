//! Compares a ClickHouse table (columns, engine and keys) with the statement that creates it in this build.

use anyhow::ensure;

pub(super) struct Contract {
    pub(super) name: &'static str,
    /// Engine with arguments, such as `ReplacingMergeTree(version, is_deleted)`.
    engine: &'static str,
    partition_key: &'static str,
    sorting_key: &'static str,
    settings: Vec<&'static str>,
    columns: Vec<&'static str>,
}

#[derive(clickhouse::Row, serde::Deserialize)]
pub(super) struct Table {
    engine: String,
    engine_full: String,
    partition_key: String,
    sorting_key: String,
    /// For nested columns, the part before the dot.
    columns: Vec<String>,
}

const DISTRIBUTED: &str = "Distributed";

const DESCRIPTION: &str = "SELECT engine, engine_full, partition_key, sorting_key, \
        (SELECT groupUniqArray(splitByChar('.', name)[1]) FROM system.columns WHERE database = currentDatabase() AND table = ?) AS columns \
    FROM system.tables WHERE database = currentDatabase() AND name = ?";

impl Contract {
    /// Parses a `CREATE TABLE` statement; returns `None` for a view.
    pub(super) fn parse(statement: &'static str) -> Option<Self> {
        let lines: Vec<&'static str> = statement.lines().filter(|line| !line.starts_with("--")).collect();
        let after = |word: &str| lines.iter().find_map(|line| line.strip_prefix(word)).unwrap_or_default();
        let name = lines.iter().find_map(|line| line.strip_prefix("CREATE TABLE IF NOT EXISTS "))?;
        let names = lines
            .iter()
            .filter_map(|line| line.strip_prefix("    "))
            .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
        let columns = names.filter(|line| !line.contains(" = ")).filter_map(|line| line.split_whitespace().next()).collect();
        let settings = statement.split_once("\nSETTINGS ").map(|(_, settings)| settings.split(',').map(str::trim).collect());
        let key = |word| after(word).trim_start_matches('(').trim_end_matches(')');
        Some(Self {
            name,
            engine: after("ENGINE = "),
            partition_key: key("PARTITION BY "),
            sorting_key: key("ORDER BY "),
            settings: settings.unwrap_or_default(),
            columns,
        })
    }

    pub(super) async fn find(&self, client: &clickhouse::Client) -> Result<Option<Table>, clickhouse::error::Error> {
        client.query(DESCRIPTION).bind(self.name).bind(self.name).fetch_optional().await
    }

    /// Returns whether the account may read the table, even if the table doesn't exist.
    pub(super) async fn is_readable(&self, client: &clickhouse::Client) -> Result<bool, clickhouse::error::Error> {
        let granted: u8 = client.query(&format!("CHECK GRANT SELECT ON {}", self.name)).fetch_one().await?;
        Ok(granted == 1)
    }

    /// # Errors
    ///
    /// Fails if the table is missing or different. If `ALTER` can't fix it, create a new database and fill it from the log.
    pub(super) fn check(&self, found: Option<&Table>) -> anyhow::Result<()> {
        let Self { name, .. } = self;
        let Some(found) = found else {
            anyhow::bail!("table {name} does not exist: create it with `telemetry stream-workers prepare`")
        };
        let fix = "fill a new database with `telemetry stream-workers rebuild`";
        let missing = self.columns.iter().find(|column| found.columns.iter().all(|own| own != *column));
        ensure!(missing.is_none(), "table {name} has no column {}; {fix}", missing.unwrap_or(&""));
        // It reads the shards' tables, which their writers check.
        if found.engine == DISTRIBUTED {
            return Ok(());
        }
        let Table { engine_full, partition_key, sorting_key, .. } = found;
        ensure!(self.has_engine(found), "table {name}: the engine is not {} but {engine_full}; {fix}", self.engine);
        ensure!(
            self.sorting_key == sorting_key,
            "table {name}: ORDER BY is ({sorting_key}) instead of ({}); {fix}",
            self.sorting_key
        );
        ensure!(
            self.partition_key == partition_key,
            "table {name}: PARTITION BY is ({partition_key}) instead of ({}); {fix}",
            self.partition_key
        );
        let unset = self.settings.iter().find(|setting| !engine_full.contains(**setting));
        ensure!(unset.is_none(), "table {name}: run ALTER TABLE {name} MODIFY SETTING {}", unset.unwrap_or(&""));
        Ok(())
    }

    /// Returns whether the engine and its arguments match. Replicated engines don't match (docs/deploy.md#clickhouse).
    fn has_engine(&self, found: &Table) -> bool {
        let own = found.engine_full.split(" PARTITION BY ").next().and_then(|full| full.split(" ORDER BY ").next());
        own.and_then(|own| own.split(" PRIMARY KEY ").next()) == Some(self.engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_table_statements() {
        let contracts: Vec<Contract> = store::tables::DDL.iter().filter_map(|statement| Contract::parse(statement)).collect();
        let events = contracts.iter().find(|contract| contract.name == "events").expect("a table");
        assert_eq!(events.engine, "ReplacingMergeTree(version, is_deleted)");
        assert_eq!((events.partition_key, events.sorting_key), ("home", "site, at, key"));
        assert!(events.settings.contains(&"fsync_after_insert = 1"), "{:?}", events.settings);
        for column in ["site", "reports", "is_deleted"] {
            assert!(events.columns.contains(&column), "{column}: {:?}", events.columns);
        }
        assert!(contracts.iter().all(|contract| !contract.engine.is_empty() && !contract.sorting_key.is_empty()));
    }
}
