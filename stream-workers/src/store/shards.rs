//! A block over several servers: each row goes to the shard of its key (docs/operating/scaling.md#clickhouse-shards).
//!
//! Must be done with a block only when every shard has its piece, and must not begin with it while a shard is known to be away.

use super::insert_into;
use crate::record::row::ObservationRow;
use clickhouse::Client;
use clickhouse::error::Error;
use futures::future::{join_all, try_join_all};
use service_kit::settings::ClickHouseShards;

/// Inserts each piece under the token of the block, all at a time: a piece that is there already is not taken again. Every shard is
/// let finish, so that what is tried again does not meet what is still being inserted.
pub(super) async fn insert(shards: &[Client], rows: &[ObservationRow], token: &str) -> Result<(), Error> {
    let mut answers = Vec::new();
    let mut pieces: Vec<Vec<&ObservationRow>> = Vec::new();
    for shard in shards {
        answers.push(shard.query("SELECT 1").fetch_one::<u8>());
        pieces.push(Vec::new());
    }
    try_join_all(answers).await?;
    for row in rows {
        pieces[ClickHouseShards::place_of(row.event_key, shards.len())].push(row);
    }
    let mut inserts = Vec::new();
    for (shard, piece) in shards.iter().zip(pieces).filter(|(_, piece)| !piece.is_empty()) {
        inserts.push(insert_into(shard, piece, token));
    }
    join_all(inserts).await.into_iter().collect()
}
