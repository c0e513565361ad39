//! What the same rows cost in other tables: filled in the same order as the index, read settled and as merges left them, with
//! one report in twenty again, and with rows arriving. The figures of docs/operating/reads.md#layouts.
//!
//! Must give every layout the same reports in the same order, in tables of a database of its own.

use super::{BEGIN_MS, DAY_MS, WARM_UP, YEAR_MS, print_delta};
use crate::drive::Latencies;
use crate::report::Quantiles;
use crate::stage::FreshStores;
use schemas::store::RETRIEVAL_INDEX;
use service_kit::retrieval_index::{self, Compactor};
use service_kit::settings::ClickHouseSettings;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// The reports of a slice of the year are one insert.
const SLICES: i64 = 120;
/// A read that takes longer is not asked again: of 30 million observations the wide rows took two and a half minutes.
const PATIENCE: Duration = Duration::from_secs(5);
/// The reports in the order of their times, which in `observations` lie by key.
const IN_ORDER: &str = "CREATE TABLE in_order ENGINE = MergeTree ORDER BY at AS SELECT * FROM observations WHERE site != ''";

/// One table beside the others.
struct Layout {
    name: &'static str,
    table: &'static str,
    /// How the table is made; none where it is one of the service's own.
    create: Option<&'static str>,
    /// What a report is in it.
    columns: &'static str,
    /// Its retrievals by type and roles; `{where}` is the owner's range and the window.
    count: &'static str,
    /// The keys of the newest hundred.
    page: &'static str,
    /// Whether it happened in `{begin}` to `{end}`, in milliseconds.
    in_window: &'static str,
    is_compacted: bool,
}

/// Rank, acceptance, type and time in one number, the smallest of which represents the retrieval.
const TOLD: &str = "bitOr(bitOr(bitShiftLeft(toUInt128(if(source_role = '', 5, toUInt8(source_role))), 120), \
        bitShiftLeft(toUInt128(bitNot(version)), 56)), \
    bitOr(bitShiftLeft(toUInt128(indexOf(['content_retrieved', 'content_grounded', 'content_cited', 'content_presented', \
        'content_engaged'], event_type)), 48), toUInt128(toUnixTimestamp64Milli(at))))";
const KEYED_COLUMNS: &str = "site, event_key, {told} AS told, toUInt8(bitShiftLeft(1, toUInt8(source_role))) AS roles, \
    bitOr(bitShiftLeft(toUInt256(told), 64), toUInt256(sipHash64(content_url))) AS page, \
    if(session_id = toUUID('00000000-0000-0000-0000-000000000000'), [], [sipHash64(platform_id, session_id)]) AS sessions";
const KEYED_WINDOW: &str = "toInt64(bitAnd(told, 281474976710655)) >= {begin} AND toInt64(bitAnd(told, 281474976710655)) < {end}";
const KEYED_COUNT: &str = "SELECT bitAnd(bitShiftRight(told, 48), 255) AS type, roles, count() FROM {table} FINAL \
    WHERE {where} GROUP BY type, roles";
const KEYED_PAGE: &str = "SELECT site, event_key, bitAnd(told, 281474976710655) AS ms FROM {table} FINAL \
    WHERE {where} ORDER BY ms DESC, event_key LIMIT 100";

const LAYOUTS: [Layout; 4] = [
    Layout {
        name: "A: narrow rows by key",
        table: "keyed",
        create: Some(
            "CREATE TABLE {table} (site LowCardinality(String), event_key UInt128 CODEC(NONE), \
               told SimpleAggregateFunction(min, UInt128), roles SimpleAggregateFunction(groupBitOr, UInt8), \
               page SimpleAggregateFunction(min, UInt256), sessions SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64))) \
             ENGINE = AggregatingMergeTree ORDER BY (site, event_key)",
        ),
        columns: KEYED_COLUMNS,
        count: KEYED_COUNT,
        page: KEYED_PAGE,
        in_window: KEYED_WINDOW,
        is_compacted: false,
    },
    Layout {
        name: "B: A in sixteen partitions by key",
        table: "bucketed",
        create: Some(
            "CREATE TABLE {table} (site LowCardinality(String), event_key UInt128 CODEC(NONE), \
               told SimpleAggregateFunction(min, UInt128), roles SimpleAggregateFunction(groupBitOr, UInt8), \
               page SimpleAggregateFunction(min, UInt256), sessions SimpleAggregateFunction(groupUniqArrayArray, Array(UInt64))) \
             ENGINE = AggregatingMergeTree PARTITION BY toUInt8(bitAnd(event_key, 15)) ORDER BY (site, event_key)",
        ),
        columns: KEYED_COLUMNS,
        count: KEYED_COUNT,
        page: KEYED_PAGE,
        in_window: KEYED_WINDOW,
        is_compacted: false,
    },
    Layout {
        name: "two tiers by time (the index)",
        table: RETRIEVAL_INDEX,
        create: None,
        columns: "",
        count: "WITH fresh AS MATERIALIZED (SELECT key_low FROM {table} WHERE (tier = 'delta' OR moved) AND {site}) \
                SELECT type, roles, count() FROM ( \
                  SELECT toString(event_type) AS type, roles FROM {table} FINAL \
                  WHERE tier = 'base' AND {where} AND key_low NOT IN (SELECT key_low FROM fresh) \
                  UNION ALL \
                  SELECT argMin(toString(event_type), told) AS type, groupBitOr(seen) AS roles FROM ( \
                    SELECT key_low, event_type, (rank, received) AS told, \
                      if(tier = 'base', roles, toUInt8(bitShiftLeft(1, role))) AS seen FROM {table} \
                    WHERE {where} AND key_low IN (SELECT key_low FROM fresh)) GROUP BY key_low) \
                GROUP BY type, roles",
        page: "SELECT key_low, min(at) AS first FROM {table} FINAL WHERE {where} GROUP BY key_low ORDER BY first DESC, key_low LIMIT 100",
        // As reads do: the rows placed in the window and a day around it (`moved` names the others, which lie in `fresh` here).
        in_window: "at >= fromUnixTimestamp64Milli({begin}) AND at < fromUnixTimestamp64Milli({end}) \
                    AND placed_at >= fromUnixTimestamp64Milli({begin} - 86400000) \
                    AND placed_at < fromUnixTimestamp64Milli({end} + 86400000)",
        is_compacted: true,
    },
    Layout {
        name: "wide rows by key (observations)",
        table: "wide",
        create: Some("CREATE TABLE {table} AS {observations}"),
        columns: "*",
        count: "SELECT type, roles, count() FROM ( \
                  SELECT argMin(event_type, rank) AS type, groupBitOr(toUInt8(bitShiftLeft(1, toUInt8(source_role)))) AS roles FROM ( \
                    SELECT event_key, event_type, source_role, (if(source_role = '', 5, toUInt8(source_role)), bitNot(version)) AS rank \
                    FROM {table} FINAL WHERE {where}) \
                  GROUP BY event_key) GROUP BY type, roles",
        page: "SELECT event_key, min(at) AS first FROM {table} FINAL WHERE {where} GROUP BY event_key \
               ORDER BY first DESC, event_key LIMIT 100",
        in_window: "at >= fromUnixTimestamp64Milli({begin}) AND at < fromUnixTimestamp64Milli({end})",
        is_compacted: false,
    },
];

/// A layout with what it is measured by.
struct Bench<'a> {
    layout: &'a Layout,
    client: clickhouse::Client,
    compactor: Compactor,
    /// The database with the reports.
    of_service: &'a str,
    site: &'a str,
    runs: usize,
}

/// Fills, reads and drops one after the other. `site` is the condition on the owner's rows.
pub(super) async fn measure(stores: &FreshStores, site: &str, runs: usize, arriving: u64) -> anyhow::Result<()> {
    let main = &stores.addresses.clickhouse;
    let mut settings: ClickHouseSettings = main.clone();
    settings.clickhouse_database = format!("{}_layouts", main.clickhouse_database);
    let server = service_kit::stores::clickhouse(main)?;
    server.query(IN_ORDER).execute().await?;
    for layout in &LAYOUTS {
        server.query(&format!("CREATE DATABASE {}", settings.clickhouse_database)).execute().await?;
        let bench = Bench {
            layout,
            client: retrieval_index::client(&settings)?.with_setting("do_not_merge_across_partitions_select_final", "1"),
            compactor: Compactor::connect(&settings)?,
            of_service: &main.clickhouse_database,
            site,
            runs,
        };
        let outcome = bench.measure(arriving).await;
        server.query(&format!("DROP DATABASE {} SYNC", settings.clickhouse_database)).execute().await?;
        outcome?;
    }
    Ok(())
}

impl Bench<'_> {
    async fn measure(&self, arriving: u64) -> anyhow::Result<()> {
        println!("\nlayout: {}", self.layout.name);
        self.create().await?;
        self.fill().await?;
        self.read("as merges left it").await?;
        if !self.layout.is_compacted {
            let begun = Instant::now();
            self.execute("OPTIMIZE TABLE {table} FINAL").await?;
            println!("  merged into one part a partition in {:.1?}", begun.elapsed());
            self.read("settled").await?;
        }
        self.print_size().await?;
        // The time of a report that comes again is the same, its acceptance later.
        self.insert("cityHash64(event_key) % 20 = 0", "version - 4096000000 AS version").await?;
        self.settle().await?;
        self.read("5 % reported again").await?;
        let (rows, merges) = (self.arrive(arriving), self.keep_compacted());
        self.read("rows arriving").await?;
        rows.abort();
        merges.abort();
        Ok(())
    }

    async fn execute(&self, statement: &str) -> anyhow::Result<()> {
        let observations = format!("{}.observations", self.of_service);
        let statement = statement.replace("{table}", self.layout.table).replace("{observations}", &observations);
        Ok(self.client.query(&statement).execute().await?)
    }

    async fn create(&self) -> anyhow::Result<()> {
        if let Some(create) = self.layout.create {
            return self.execute(create).await;
        }
        let of_index =
            |statement: &&&str| ["EXISTS retrieval_index\n", "TABLE retrieval_index\n"].iter().any(|of| statement.contains(of));
        for statement in schemas::store::CLICKHOUSE_DDL.iter().filter(of_index) {
            self.execute(statement).await?;
        }
        Ok(())
    }

    /// What a report is in this layout, of those that the condition holds of.
    fn selected(&self, condition: &str, replaced: &str) -> String {
        let reports = format!("SELECT * REPLACE ({replaced}) FROM {}.in_order WHERE {condition}", self.of_service);
        if self.layout.is_compacted {
            let (names, view) = retrieval_index::delta_of(&format!("({reports})")).expect("the view is among the tables");
            return format!("INSERT INTO {} ({names}) {view}", self.layout.table);
        }
        let columns = self.layout.columns.replace("{told}", TOLD);
        format!("INSERT INTO {} SELECT {columns} FROM ({reports})", self.layout.table)
    }

    async fn insert(&self, condition: &str, replaced: &str) -> anyhow::Result<()> {
        let statement = self.client.query(&self.selected(condition, replaced));
        Ok(statement.with_setting("deduplicate_insert_select", "disable").execute().await?)
    }

    async fn settle(&self) -> anyhow::Result<()> {
        if self.layout.is_compacted {
            self.compactor.compact_all().await?;
        }
        Ok(())
    }

    async fn fill(&self) -> anyhow::Result<()> {
        let before = self.merged().await?;
        let (mut inserting, mut compacting) = (Duration::ZERO, Duration::ZERO);
        for slice in 0..SLICES {
            let end = |slice: i64| BEGIN_MS + YEAR_MS / SLICES * slice;
            let condition = format!(
                "at >= fromUnixTimestamp64Milli({}) AND at < fromUnixTimestamp64Milli({})",
                if slice == 0 { 0 } else { end(slice) },
                end(slice + 1) + if slice + 1 == SLICES { YEAR_MS } else { 0 }
            );
            let begun = Instant::now();
            self.insert(&condition, "version AS version").await?;
            inserting += begun.elapsed();
            let begun = Instant::now();
            self.settle().await?;
            compacting += begun.elapsed();
        }
        let (rows, ms) = self.merged().await?;
        println!(
            "  filled: inserts {inserting:.1?} (with the reading of their rows), compactions {compacting:.1?}, \
             background merges {:.1} s of {} rows",
            f64::from(u32::try_from(ms - before.1)?) / 1_000.0,
            rows - before.0
        );
        Ok(())
    }

    /// Rows and milliseconds of all merges of the server until now.
    async fn merged(&self) -> anyhow::Result<(u64, u64)> {
        let statement = "SELECT sumIf(value, event = 'MergedRows'), \
                           sumIf(value, event IN ('MergeTotalMilliseconds', 'MergesTimeMilliseconds')) FROM system.events";
        Ok(self.client.query(statement).fetch_one().await?)
    }

    async fn print_size(&self) -> anyhow::Result<()> {
        let statement = format!(
            "SELECT sum(rows), sum(bytes_on_disk), count(), ifNull((SELECT count() FROM {}.in_order), 0) FROM system.parts \
             WHERE active AND database = currentDatabase()",
            self.of_service
        );
        let (rows, bytes, parts, reports): (u64, u64, u64, u64) = self.client.query(&statement).fetch_one().await?;
        println!("  {rows} rows in {parts} parts, {:.1} bytes a report", super::each(bytes, reports));
        if self.layout.is_compacted { print_delta(&self.client).await } else { Ok(()) }
    }

    async fn read(&self, state: &str) -> anyhow::Result<()> {
        let day = BEGIN_MS + YEAR_MS / 2;
        let one_day = self.layout.in_window.replace("{begin}", &day.to_string()).replace("{end}", &(day + DAY_MS).to_string());
        let mut line = format!("  {state:18}");
        for (what, statement, window) in [
            ("by type and roles", self.layout.count, "1"),
            ("of one day", self.layout.count, &one_day),
            ("newest hundred", self.layout.page, "1"),
        ] {
            let condition = format!("{} AND {window}", self.site);
            let statement = statement.replace("{table}", self.layout.table).replace("{where}", &condition);
            let quantiles = self.time(&statement.replace("{site}", self.site)).await?;
            line += &format!("  {what} {:.0} / {:.0} ms", quantiles.p50_ms, quantiles.p99_ms);
        }
        println!("{line}");
        Ok(())
    }

    async fn time(&self, statement: &str) -> anyhow::Result<Quantiles> {
        let mut latencies = Latencies::default();
        for nth in 0..self.runs + WARM_UP {
            let begun = Instant::now();
            self.client.query(&format!("{statement} FORMAT Null")).execute().await?;
            let took = begun.elapsed();
            if nth >= WARM_UP || took > PATIENCE {
                latencies.record(took);
            }
            if took > PATIENCE {
                break;
            }
        }
        Ok(Quantiles::from(&latencies))
    }

    /// Two blocks a second of new retrievals, until it is stopped.
    fn arrive(&self, rows: u64) -> JoinHandle<()> {
        let condition = format!("{} AND cityHash64(event_key) % 7 = 0 LIMIT {}", self.site, rows / 2);
        let statement = self.selected(&condition, "toUInt128(generateUUIDv4()) AS event_key");
        let client = self.client.clone().with_setting("deduplicate_insert_select", "disable");
        tokio::spawn(async move {
            loop {
                if let Err(error) = client.query(&statement).execute().await {
                    eprintln!("rows do not arrive: {error}");
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        })
    }

    fn keep_compacted(&self) -> JoinHandle<()> {
        let compactor = self.layout.is_compacted.then(|| self.compactor.clone());
        tokio::spawn(async move {
            while let Some(compactor) = &compactor {
                if let Err(error) = compactor.compact_all().await {
                    eprintln!("not compacted: {error}");
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
    }
}
