//! Fills the index from `observations`: in a rebuild, where workers insert before the view exists, and when the index was dropped.
//!
//! Marks the index complete only when every observation is in it. Can be interrupted and repeated at any time, also while
//! workers run.

use super::{Compactor, STEP_ROWS, client};
use crate::settings::ClickHouseSettings;
use anyhow::Context;
use schemas::store::{RETRIEVAL_INDEX, RETRIEVAL_INDEX_COMPLETE, RETRIEVAL_INDEX_DELTA};
use std::time::{Duration, Instant};

/// The columns that the view fills, in its order.
const COLUMNS: &str = "tier, site, placed_at, key_low, key_high, delta_org, delta_observer, revision, rank, received, org, observer, \
    role, at, event_type, url, session, platform, agent, link_site";
/// Between two looks for inserts that are not over.
const PAUSE: Duration = Duration::from_millis(200);

/// Where a slice begins: after this site and key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SliceStart {
    site: String,
    event_key: String,
}

/// Puts every observation into the index and says so in its comment; nothing where that is said already.
pub async fn fill(settings: &ClickHouseSettings) -> anyhow::Result<()> {
    let client = client(settings)?;
    let comment = "SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = ?";
    let comment: String = client.query(comment).bind(RETRIEVAL_INDEX).fetch_one().await?;
    if comment.starts_with(RETRIEVAL_INDEX_COMPLETE) {
        return Ok(());
    }
    fill_all(&client, &Compactor::connect(settings)?).await.context("CLICKHOUSE_URL: the index cannot be filled")?;
    let said = format!("ALTER TABLE {RETRIEVAL_INDEX} MODIFY COMMENT '{RETRIEVAL_INDEX_COMPLETE} it has every observation'");
    client.query(&said).execute().await.context("CLICKHOUSE_URL: the index cannot be called complete")
}

async fn fill_all(client: &clickhouse::Client, compactor: &Compactor) -> anyhow::Result<()> {
    let started = Instant::now();
    let is_empty: bool = client.query("SELECT count() = 0 FROM observations").fetch_one().await?;
    // An insert that began before there was a view does not feed it, and may not be over.
    while unfinished_inserts(client, started.elapsed()).await? > 0 {
        tokio::time::sleep(PAUSE).await;
    }
    if !is_empty {
        eprintln!("{RETRIEVAL_INDEX} is filled from observations");
    }
    // Observations that nobody can own have no site and no place in the index.
    let mut from = SliceStart { site: String::new(), event_key: u128::MAX.to_string() };
    loop {
        let to = end_of_slice(client, &from).await?;
        put(client, &from, to.as_ref()).await?;
        compactor.compact_all().await?;
        let Some(to) = to else { return Ok(()) };
        from = to;
    }
}

/// Inserts that have been at work for longer than this.
async fn unfinished_inserts(client: &clickhouse::Client, than: Duration) -> Result<u64, clickhouse::error::Error> {
    let statement = "SELECT count() FROM system.processes \
        WHERE query_kind = 'Insert' AND current_database = currentDatabase() AND elapsed > ?";
    client.query(statement).bind(than.as_secs_f64()).fetch_one().await
}

/// The last site and key of the slice that begins after `from`; none when it is the last slice.
async fn end_of_slice(client: &clickhouse::Client, from: &SliceStart) -> Result<Option<SliceStart>, clickhouse::error::Error> {
    let statement = format!(
        "SELECT site, toString(event_key) FROM observations WHERE (site, event_key) > (?, toUInt128(?)) \
         ORDER BY site, event_key LIMIT 1 OFFSET {STEP_ROWS}"
    );
    let found: Option<(String, String)> =
        client.query(&statement).bind(&from.site).bind(&from.event_key).fetch_optional().await?;
    Ok(found.map(|(site, event_key)| SliceStart { site, event_key }))
}

/// Puts the observations after `from`, up to `to`, into the delta, as the view does.
async fn put(client: &clickhouse::Client, from: &SliceStart, to: Option<&SliceStart>) -> anyhow::Result<()> {
    let until = if to.is_some() { "AND (site, event_key) <= (?, toUInt128(?))" } else { "" };
    let statement =
        format!("INSERT INTO {RETRIEVAL_INDEX} ({COLUMNS}) {} AND (site, event_key) > (?, toUInt128(?)) {until}", view()?);
    let mut statement = client.query(&statement).bind(&from.site).bind(&from.event_key);
    if let Some(to) = to {
        statement = statement.bind(&to.site).bind(&to.event_key);
    }
    // What was dropped after an earlier fill is put there again.
    statement.with_setting("deduplicate_insert_select", "disable").execute().await?;
    Ok(())
}

/// What the delta has of these reports, `FROM` them: its columns, and what the view selects.
pub fn delta_of(reports: &str) -> anyhow::Result<(&'static str, String)> {
    Ok((COLUMNS, view()?.replace("FROM observations", &format!("FROM {reports}"))))
}

/// What the view selects from each block.
fn view() -> anyhow::Result<&'static str> {
    let statement = schemas::store::CLICKHOUSE_DDL
        .iter()
        .find(|statement| statement.contains("CREATE MATERIALIZED VIEW IF NOT EXISTS retrieval_index_delta"));
    let select = statement.and_then(|statement| Some(&statement[statement.find("\nSELECT")?..]));
    select.with_context(|| format!("{RETRIEVAL_INDEX_DELTA} selects nothing"))
}
