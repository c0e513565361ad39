//! A block over several servers: each row goes to the shard of its key, with its position on the log
//! (docs/operating/scaling.md#clickhouse-shards).
//!
//! Must be done with a block only when every shard has its piece, and must raise the high watermark only then: no read shows a report
//! before.

use super::insert_into;
use crate::consume::Offsets;
use crate::record::row::ObservationRow;
use crate::resolve::back_off::BackOff;
use clickhouse::error::Error;
use clickhouse::{Client, Row};
use futures::future::join_all;
use schemas::store::HIGH_WATERMARKS;
use serde::Serialize;
use service_kit::settings::ClickHouseShards;

/// An observation and where on the log it stands.
#[derive(Serialize)]
pub(super) struct ShardRow<'a> {
    row: &'a ObservationRow,
    log_partition: i32,
    log_offset: i64,
}

impl<'a> From<&'a ObservationRow> for ShardRow<'a> {
    fn from(row: &'a ObservationRow) -> Self {
        Self { row, log_partition: row.partition, log_offset: row.offset }
    }
}

/// Written by hand because a derived one knows no columns of a row within the row.
impl Row for ShardRow<'_> {
    const NAME: &'static str = "ShardRow";
    const COLUMN_NAMES: &'static [&'static str] = &COLUMNS;
    const COLUMN_COUNT: usize = COLUMNS.len();
    const KIND: clickhouse::_priv::RowKind = clickhouse::_priv::RowKind::Struct;
    type Value<'v> = ShardRow<'v>;
}

const COLUMNS: [&str; ObservationRow::COLUMN_COUNT + 2] = {
    let mut columns = ["log_partition"; ObservationRow::COLUMN_COUNT + 2];
    let mut place = 0;
    while place < ObservationRow::COLUMN_COUNT {
        columns[place] = ObservationRow::COLUMN_NAMES[place];
        place += 1;
    }
    columns[ObservationRow::COLUMN_COUNT + 1] = "log_offset";
    columns
};

#[derive(Row, Serialize)]
struct Watermark {
    partition: i32,
    high_watermark: i64,
}

/// Inserts each piece under the token of the block, all at a time: a piece that is there already is not taken again. Every shard is
/// let finish, so that what is tried again does not meet what is still being inserted.
pub(super) async fn insert(shards: &[Client], rows: &[ObservationRow], token: &str) -> Result<(), Error> {
    let mut pieces: Vec<Vec<&ObservationRow>> = shards.iter().map(|_| Vec::new()).collect();
    for row in rows {
        pieces[ClickHouseShards::place_of(row.event_key, shards.len())].push(row);
    }
    let mut inserts = Vec::new();
    for (shard, piece) in shards.iter().zip(pieces).filter(|(_, piece)| !piece.is_empty()) {
        let rows: Vec<ShardRow> = piece.into_iter().map(ShardRow::from).collect();
        inserts.push(async move { insert_into::<ShardRow>(shard, &rows, token).await });
    }
    join_all(inserts).await.into_iter().collect()
}

/// Raises the high watermark over what these offsets brought, on every shard, where there are several; until all have taken it.
pub(super) async fn raise_watermark(shards: &[Client], offsets: &Offsets) {
    if shards.len() < 2 || offsets.is_empty() {
        return;
    }
    let watermarks: Vec<_> =
        offsets.iter().map(|(partition, (_, last))| Watermark { partition: *partition, high_watermark: last + 1 }).collect();
    let mut back_off = BackOff::default();
    for shard in shards {
        while let Err(error) = insert_watermarks(shard, &watermarks).await {
            tracing::error!("the high watermark cannot be raised, trying again: {error}");
            back_off.pause().await;
        }
    }
}

async fn insert_watermarks(shard: &Client, watermarks: &[Watermark]) -> Result<(), Error> {
    let mut insert = shard.insert::<Watermark>(HIGH_WATERMARKS).await?.with_setting("async_insert", "0");
    for watermark in watermarks {
        insert.write(watermark).await?;
    }
    insert.end().await
}
