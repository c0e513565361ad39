//! `stream-workers rebuild`: an empty ClickHouse is filled from the log.
//!
//! Must not begin on a table that holds rows, and must not call a table whole that the log cannot fill.

use crate::replay::{Range, ReplayOptions, read_again};
use crate::topic_reader::TopicReader;
use crate::{Settings, prepare};
use anyhow::{bail, ensure};
use clap::Args;
use schemas::store::OBSERVATIONS;
use service_kit::clock::Clock;
use service_kit::{kafka, stores};

/// How to rebuild.
#[derive(Args, Clone, Debug, Default)]
pub struct RebuildOptions {
    /// Rebuild from what is left when the beginning of the log is gone
    #[arg(long)]
    accept_gap: bool,
}

/// Creates the tables and fills them with everything that is on the log. Workers and gateways may run meanwhile.
pub async fn rebuild(settings: &Settings, options: &RebuildOptions, clock: Clock) -> anyhow::Result<()> {
    kafka::check_topics(&settings.kafka).await?;
    prepare(settings).await?;
    stores::check_clickhouse(&settings.clickhouse).await?;
    let client = stores::clickhouse(&settings.clickhouse)?;
    let rows: u64 = client.query(&format!("SELECT count() FROM {OBSERVATIONS}")).fetch_one().await?;
    let database = &settings.clickhouse.clickhouse_database;
    ensure!(
        rows == 0,
        "{database}.{OBSERVATIONS} holds {rows} rows: to read the log again into a table in use, run `stream-workers replay`; to begin anew, DROP TABLE {database}.{OBSERVATIONS} first"
    );
    let range = Range::find(&TopicReader::open(&settings.kafka, &settings.kafka.topic)?, None, None).await?;
    for (partition, first) in &range.gaps {
        if !options.accept_gap {
            bail!(
                "partition {partition} of the log begins at offset {first}, so what came before cannot be rebuilt; add --accept-gap to rebuild the rest"
            );
        }
        eprintln!("partition {partition} of the log begins at offset {first}: what came before is gone");
    }
    let observations = read_again(settings, &ReplayOptions::default(), &range, clock).await?;
    eprintln!("{database}.{OBSERVATIONS} is rebuilt: {observations} observations");
    Ok(())
}
