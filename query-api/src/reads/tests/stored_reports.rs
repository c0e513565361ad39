//! Reports in the tables, written as the writer does it.

use super::reports::TestReport;
use rand::RngExt;
use rand::rngs::StdRng;
use reqwest::Method;
use schemas::event_key::EventKey;
use schemas::site::Site;
use service_kit::settings::ClickHouseSettings;
use service_kit::testing::clickhouse_request;
use std::collections::{BTreeMap, BTreeSet};
use store::facts::Facts;
use store::merge::{Changes, CurrentRows, keys_to_look_up, merge};
use store::row::{EventRow, EventWrite};
use store::row_binary::Encoder;
use store::tables::{DDL, EVENT_COLUMNS, FAILED_FETCH_COLUMNS, FailedFetchRow, encode_event};

pub(in crate::reads) struct ReportTables {
    settings: ClickHouseSettings,
}

impl ReportTables {
    pub(in crate::reads) async fn new(settings: &ClickHouseSettings) -> Self {
        let stored = Self { settings: settings.clone() };
        for statement in DDL {
            stored.run(statement).await;
        }
        stored
    }

    pub(in crate::reads) async fn run(&self, statement: &str) {
        self.post(&[], statement.as_bytes().to_vec()).await;
    }

    async fn insert(&self, statement: &str, rows: Vec<u8>) {
        // ClickHouse rejects requests without a body.
        if rows.is_empty() {
            return;
        }
        self.post(&[("query", statement), ("async_insert", "0")], rows).await;
    }

    async fn post(&self, query: &[(&str, &str)], body: Vec<u8>) {
        let mut url = reqwest::Url::parse(&self.settings.clickhouse_url).unwrap();
        url.query_pairs_mut().append_pair("database", &self.settings.clickhouse_database).extend_pairs(query);
        let response = clickhouse_request(Method::POST, url.as_str()).body(body).send().await.unwrap();
        let status = response.status();
        assert!(status.is_success(), "{query:?} {status}: {}", response.text().await.unwrap());
    }

    /// Replaces the stored rows by these reports and copies of log lines, in blocks of random size.
    pub(in crate::reads) async fn fill(&self, reports: &[TestReport], copies: &[FailedFetchRow], random: &mut StdRng) {
        for table in ["events", "sites", "failed_fetches"] {
            self.run(&format!("TRUNCATE TABLE {table}")).await;
        }
        self.insert_sites(reports, copies).await;
        self.insert_copies(copies, random).await;
        let (mut rows, mut rest, mut version) = (BTreeMap::new(), reports, 1 << 40);
        while !rest.is_empty() {
            let (block, later) = rest.split_at(random.random_range(1..=rest.len()));
            let changes = changes(&rows, block);
            apply(&mut rows, &changes);
            version += 1;
            self.insert_events(&changes.events_first, version).await;
            self.insert_events(&changes.events, version).await;
            rest = later;
        }
        if random.random_bool(0.2) {
            self.run("OPTIMIZE TABLE events FINAL").await;
        }
    }

    /// Inserts some blocks twice, as after a crash.
    async fn insert_copies(&self, copies: &[FailedFetchRow], random: &mut StdRng) {
        let columns: Vec<&str> = FAILED_FETCH_COLUMNS.iter().map(|(name, _)| *name).collect();
        let insert = format!("INSERT INTO failed_fetches ({}) FORMAT RowBinary", columns.join(", "));
        for block in copies.chunks(random.random_range(1..40)) {
            for _ in 0..random.random_range(1..3) {
                let mut body = Encoder::default();
                block.iter().for_each(|row| row.encode(&mut body));
                self.insert(&insert, body.0).await;
            }
        }
        if random.random_bool(0.2) {
            self.run("OPTIMIZE TABLE failed_fetches FINAL").await;
        }
    }

    async fn insert_sites(&self, reports: &[TestReport], copies: &[FailedFetchRow]) {
        let hosts = reports.iter().filter_map(|report| report.site.as_ref().map(Site::as_str));
        let links = reports.iter().map(|report| report.facts.link_site.as_str());
        let lines = copies.iter().map(|copy| copy.fetch.site.as_str());
        let sites: BTreeSet<&str> = hosts.chain(links).chain(lines).filter(|site| !matches!(*site, "" | "-")).collect();
        let mut body = Encoder::default();
        for site in sites {
            for above in Site::from_stored(site).candidates() {
                body.text(above.as_str());
                body.text(site);
            }
        }
        self.insert("INSERT INTO sites (above, site) FORMAT RowBinary", body.0).await;
    }

    async fn insert_events(&self, writes: &[EventWrite<Facts>], version: u64) {
        let mut body = Encoder::default();
        writes.iter().for_each(|write| encode_event(write, version, &mut body));
        let columns: Vec<String> = EVENT_COLUMNS.iter().map(|(name, _)| format!("`{name}`")).collect();
        self.insert(&format!("INSERT INTO events ({}) FORMAT RowBinary", columns.join(", ")), body.0).await;
    }
}

type Rows = BTreeMap<EventKey, EventRow<Facts>>;

fn changes(rows: &Rows, block: &[TestReport]) -> Changes<Facts> {
    let mut groups: BTreeMap<EventKey, Vec<TestReport>> = BTreeMap::new();
    block.iter().for_each(|report| groups.entry(report.group()).or_default().push(report.clone()));
    let mut changes = Changes::default();
    for (group, new) in groups {
        let joined = new[0].shared_key.and_then(|_| rows.get(&group)).cloned();
        let keys = keys_to_look_up(joined.as_ref(), &new);
        let standalone = keys.iter().filter_map(|key| rows.get(key)).cloned().collect();
        changes.extend(merge(&CurrentRows { joined, standalone, ..CurrentRows::default() }, &new));
    }
    changes
}

fn apply(rows: &mut Rows, changes: &Changes<Facts>) {
    for writes in [&changes.events_first, &changes.events] {
        for write in writes {
            if let EventWrite::Tombstone(place) = write {
                rows.remove(&place.key);
            }
        }
        for write in writes {
            if let EventWrite::Row(row) = write {
                rows.insert(row.key, row.clone());
            }
        }
    }
}
