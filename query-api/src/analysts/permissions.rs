//! Rows of `analyst_access`: the hosts that an account may see, and when its access expires.

use crate::access::visibility::Visibility;
use clickhouse::{Client, Row};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Value of `visible_from_ms` for other owners' hosts.
const NEVER_MS: i64 = i64::MAX;
/// Value of `visible_from_ms` for hosts without a start time: the year 1900, the minimum of the `at` column.
const ALWAYS_MS: i64 = -2_208_988_800_000;

#[derive(Row, Serialize)]
pub(super) struct AccessRow {
    login: String,
    hosts: Vec<String>,
    visible_from_ms: Vec<i64>,
    /// Time of the check in milliseconds since 1970, like `until`.
    checked: i64,
    until: i64,
}

pub(super) struct Permissions {
    login: String,
    hosts: Vec<String>,
    visible_from_ms: Vec<i64>,
}

impl Permissions {
    /// Creates permissions from hosts and their start times.
    pub(super) fn new(login: &str, seen: &Visibility) -> Self {
        let own = seen.own().iter().map(|own| (&own.site, own.visible_from_ms.unwrap_or(ALWAYS_MS).max(ALWAYS_MS)));
        // A host that the owner has verified belongs to the owner, even if another organization has verified it too.
        let foreign = seen.foreign().iter().filter(|site| seen.own().iter().all(|own| own.site != **site));
        let foreign = foreign.map(|site| (site, NEVER_MS));
        let (hosts, visible_from_ms) = own.chain(foreign).map(|(site, from)| (site.as_str().to_owned(), from)).unzip();
        Self { login: login.to_owned(), hosts, visible_from_ms }
    }

    /// Returns the row to insert. Times are milliseconds since 1970 by ClickHouse's clock.
    pub(super) fn row(self, checked: i64, until: i64) -> AccessRow {
        AccessRow { login: self.login, hosts: self.hosts, visible_from_ms: self.visible_from_ms, checked, until }
    }
}

/// Returns the row that ends an account's access immediately.
pub(super) fn ended(login: String, now_ms: i64) -> AccessRow {
    AccessRow { login, hosts: Vec::new(), visible_from_ms: Vec::new(), checked: now_ms, until: now_ms }
}

#[derive(Row, Deserialize)]
struct StoredRow {
    login: String,
    hosts: Vec<String>,
    visible_from_ms: Vec<i64>,
    until_ms: i64,
}

/// Each account's newest row.
pub(super) struct StoredPermissions(HashMap<String, StoredRow>);

impl StoredPermissions {
    pub(super) async fn load(clickhouse: &Client) -> clickhouse::error::Result<Self> {
        let rows: Vec<StoredRow> = clickhouse.query_raw(include_str!("../../sql/analysts_stored.sql")).fetch_all().await?;
        Ok(Self(rows.into_iter().map(|row| (row.login.clone(), row)).collect()))
    }

    /// Returns whether exactly these permissions are stored and valid at `ms`.
    pub(super) fn has(&self, rights: &Permissions, ms: i64) -> bool {
        let row = self.0.get(&rights.login);
        row.is_some_and(|row| row.hosts == rights.hosts && row.visible_from_ms == rights.visible_from_ms && row.until_ms > ms)
    }

    /// Returns whether any permissions of the account are valid at `ms`.
    pub(super) fn is_valid(&self, login: &str, ms: i64) -> bool {
        self.0.get(login).is_some_and(|row| row.until_ms > ms)
    }
}

/// Inserts the rows, and returns when they are visible.
pub(super) async fn store(clickhouse: &Client, rows: &[AccessRow]) -> clickhouse::error::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let client = clickhouse.clone().with_setting("async_insert", "0");
    let mut insert = client.insert::<AccessRow>("analyst_access").await?;
    for row in rows {
        insert.write(row).await?;
    }
    insert.end().await
}
