//! Requests that are on the log once more, long after they were stored: a gateway was not told that they were there, and kept them.
//!
//! Must not take a request for stored while any shard lacks its piece.

use super::{Request, request};
use crate::record::fold::Folded;
use clickhouse::error::Error;
use clickhouse::{Client, Row};
use futures::future::try_join_all;
use schemas::store::OBSERVATIONS;
use serde::Deserialize;
use service_kit::settings::ClickHouseShards;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use uuid::Uuid;

/// What is said of requests under way is there for longer, so that of a younger one it need not be asked whether it is stored.
const LATE: Duration = Duration::from_secs(600);
/// Rows that one statement asks for: it has 256 KiB.
const ASKED: usize = 500;

/// Where a row lies: its site, and its key in digits.
type RowPlace<'a> = (&'a str, String);

#[derive(Row, Deserialize)]
struct Stored {
    received: u64,
    #[serde(with = "clickhouse::serde::uuid")]
    org: Uuid,
}

/// Whether it may have been stored so long ago that nothing says any more where on the log it was.
pub(super) fn is_late((received, _): Request, now_us: i64) -> bool {
    let late_us = i64::try_from(LATE.as_micros()).unwrap_or(i64::MAX);
    i64::try_from(received).is_ok_and(|received| received < now_us.saturating_sub(late_us))
}

/// Those of the late requests of a block of which every shard has its piece. One row tells it of a piece, which is inserted at one go.
pub(super) async fn stored(shards: &[Client], folded: &Folded, mut late: HashSet<Request>) -> Result<HashSet<Request>, Error> {
    if late.is_empty() {
        return Ok(late);
    }
    let rows_of_each = one_of_each_piece(folded, &late, shards.len());
    let mut questions = Vec::new();
    for (shard, rows) in shards.iter().zip(&rows_of_each) {
        questions.push(found(shard, rows.values().cloned().collect()));
    }
    let found_on_each = try_join_all(questions).await?;
    for (rows, found) in rows_of_each.iter().zip(&found_on_each) {
        late.retain(|request| found.contains(request) || !rows.contains_key(request));
    }
    Ok(late)
}

/// Of each shard's piece of each request one row, by shard.
fn one_of_each_piece<'a>(folded: &'a Folded, late: &HashSet<Request>, shards: usize) -> Vec<HashMap<Request, RowPlace<'a>>> {
    let mut of_each = vec![HashMap::new(); shards];
    for row in folded.rows.iter().chain(&folded.repeats).filter(|row| late.contains(&request(row))) {
        let of_shard = &mut of_each[ClickHouseShards::place_of(row.event_key, shards)];
        of_shard.entry(request(row)).or_insert_with(|| (row.site.as_str(), row.event_key.to_string()));
    }
    of_each
}

/// The requests that this shard has rows of in these places.
async fn found(shard: &Client, rows: Vec<RowPlace<'_>>) -> Result<HashSet<Request>, Error> {
    let statement = format!(
        "SELECT DISTINCT bitShiftRight(bitNot(version), 12) AS received, org_id AS org FROM {OBSERVATIONS} \
         WHERE (site, event_key) IN (SELECT row.1, toUInt128(row.2) FROM (SELECT arrayJoin(?) AS row))"
    );
    let mut found = HashSet::new();
    for asked in rows.chunks(ASKED) {
        // By the sorting key, and not by a projection that has a part of it.
        let query = shard.query(&statement).bind(asked).with_setting("optimize_use_projections", "0");
        found.extend(query.fetch_all::<Stored>().await?.into_iter().map(|row| (row.received, row.org)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_late_while_what_was_said_of_it_may_still_be_there() {
        let now_us = 1_790_000_000_000_000;
        let is_late = |minutes: i64| is_late(((now_us - minutes * 60_000_000) as u64, Uuid::nil()), now_us);
        assert_eq!([0, 9, 11, 14].map(is_late), [false, false, true, true]);
    }
}
