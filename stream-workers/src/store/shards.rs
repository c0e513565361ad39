//! A block over several servers: each row goes to the shard of its key (docs/operating/scaling.md#clickhouse-shards).
//!
//! Must be done with a block only when every shard has its piece, and must not begin with it while a shard is known to be away. Must
//! say of a request that it is under way before any shard has a part of it, and that it is there when all have.

mod logged_again;

use super::insert_into;
use crate::back_off::BackOff;
use crate::consume::Offsets;
use crate::record::fold::Folded;
use crate::record::row::ObservationRow;
use clickhouse::error::Error;
use clickhouse::{Client, Row};
use futures::future::{join_all, try_join_all};
use schemas::store::{LOG_THROUGH, REQUESTS_UNDER_WAY};
use serde::Serialize;
use service_kit::settings::ClickHouseShards;
use std::collections::HashMap;
use uuid::Uuid;

/// A request that some shard may lack a part of.
#[derive(Row, Serialize)]
struct UnderWay {
    partition: i32,
    place: i64,
    received: u64,
    #[serde(with = "clickhouse::serde::uuid")]
    org: Uuid,
}

impl UnderWay {
    fn request(&self) -> Request {
        (self.received, self.org)
    }
}

/// When it was accepted, in microseconds, and by whom it was reported: the same wherever on the log it is.
type Request = (u64, Uuid);

fn request(row: &ObservationRow) -> Request {
    (u64::try_from(row.received_at_us()).unwrap_or(0), row.org_id)
}

/// How far a partition is on all shards.
#[derive(Row, Serialize)]
struct Through {
    partition: i32,
    next: i64,
}

pub(super) async fn all_answer(shards: &[Client]) -> Result<(), Error> {
    let mut answers = Vec::new();
    for shard in shards {
        answers.push(shard.query("SELECT 1").fetch_one::<u8>());
    }
    try_join_all(answers).await.map(drop)
}

/// Says on every shard which requests of the block lie on more than one, other than those that all of them have had for long.
pub(super) async fn mark(shards: &[Client], folded: &Folded, now_us: i64) -> Result<(), Error> {
    let mut marks = torn(folded, shards.len());
    let late = marks.iter().map(UnderWay::request).filter(|request| logged_again::is_late(*request, now_us)).collect();
    let stored = logged_again::stored(shards, folded, late).await?;
    marks.retain(|mark| !stored.contains(&mark.request()));
    if marks.is_empty() {
        return Ok(());
    }
    let mut inserts = Vec::new();
    for shard in shards {
        inserts.push(insert_all(shard, REQUESTS_UNDER_WAY, &marks));
    }
    try_join_all(inserts).await.map(drop)
}

/// The requests with events on more than one shard, also where another request of the block has reported one of them before.
fn torn(folded: &Folded, shards: usize) -> Vec<UnderWay> {
    let mut requests: HashMap<_, (usize, bool)> = HashMap::new();
    for row in folded.rows.iter().chain(&folded.repeats) {
        let shard = ClickHouseShards::place_of(row.event_key, shards);
        let request = requests.entry((row.partition, row.offset, request(row))).or_insert((shard, false));
        request.1 |= request.0 != shard;
    }
    let torn = requests.into_iter().filter(|(_, (_, is_torn))| *is_torn);
    torn.map(|((partition, place, (received, org)), _)| UnderWay { partition, place, received, org }).collect()
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
        inserts.push(insert_into(shard, piece, token));
    }
    join_all(inserts).await.into_iter().collect()
}

/// Says on every shard that all of them have what these offsets brought; where there are several, until they have taken it.
pub(super) async fn say_through(shards: &[Client], offsets: &Offsets) {
    if shards.len() < 2 || offsets.is_empty() {
        return;
    }
    let through: Vec<_> =
        offsets.iter().map(|(partition, (_, last))| Through { partition: *partition, next: last + 1 }).collect();
    let mut back_off = BackOff::default();
    for shard in shards {
        while let Err(error) = insert_all(shard, LOG_THROUGH, &through).await {
            tracing::error!("how far the shards are cannot be said, trying again: {error}");
            back_off.pause().await;
        }
    }
}

async fn insert_all<T>(shard: &Client, table: &str, rows: &[T]) -> Result<(), Error>
where
    T: clickhouse::RowOwned + clickhouse::RowWrite,
{
    let mut insert = shard.insert::<T>(table).await?.with_setting("async_insert", "0");
    for row in rows {
        insert.write(row).await?;
    }
    insert.end().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::decode::decode;
    use crate::record::fold::fold;

    /// A request at this place of the log, and accepted in the order of places.
    fn request(place: i64, keys: &[u128]) -> Vec<ObservationRow> {
        let event = |key| {
            format!(r#"{{"key":"{key:032x}","type":"content_retrieved","at_ms":1,"source_role":"edge","site":"com.example"}}"#)
        };
        let events = keys.iter().map(event).collect::<Vec<_>>().join(",");
        let org = Uuid::from_u128(1);
        let record = format!(r#"{{"v":4,"org":"{org}","received_at_us":{place},"kind":"events","events":[{events}]}}"#);
        ObservationRow::of(decode(record.as_bytes()).unwrap(), (3, place))
    }

    #[test]
    fn a_request_is_under_way_where_its_events_lie_on_two_shards_whoever_reported_them_before() {
        let places = |requests: &[(i64, &[u128])]| {
            let rows = requests.iter().flat_map(|(place, keys)| request(*place, keys)).collect();
            let mut places: Vec<_> = torn(&fold(rows), 2).iter().map(|one| (one.partition, one.place, one.received)).collect();
            places.sort_unstable();
            places
        };
        assert_eq!(places(&[(5, &[0, 2, 4]), (6, &[1]), (7, &[])]), []);
        assert_eq!(places(&[(5, &[0, 1]), (6, &[2, 4]), (7, &[7, 9, 8])]), [(3, 5, 5), (3, 7, 7)]);
        // The second event of the later request is a repeat.
        assert_eq!(places(&[(5, &[1]), (6, &[0, 1])]), [(3, 6, 6)]);
    }
}
