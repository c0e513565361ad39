//! Retrievals counted by what they count as. Few differ in it, so that their reports are looked at once for each shape and not
//! once for each retrieval.
//!
//! Must be made of its own words and of the conditions of [`Owned`] only: nothing that a caller wrote.

use super::owned::Owned;
use super::retrievals::{Column, retrievals_here, session_of_each, shape, told_of_each, whole};

/// The text of a shape (schemas/clickhouse/retrieval_index_shape.sql): the type, and of each report, the representing one first, role,
/// organisation, platform, agent, `link_site` and whether it has a session.
const MEANING: &str = "'Tuple(String, Array(Tuple(UInt8, UUID, UUID, String, String, UInt8)))'";

/// What retrievals are grouped by. Where a site is visible from some time on, retrievals of one shape differ in what is told of them.
fn key(owned: &Owned) -> &'static str {
    if owned.tells_by_time() { "shape, are_told" } else { "shape" }
}

fn shaped(owned: &Owned, columns: impl IntoIterator<Item = Column>) -> String {
    let told = owned.tells_by_time().then(|| told_of_each(owned));
    let columns: Vec<Column> = columns.into_iter().chain([shape()]).chain(told).collect();
    retrievals_here(owned, &columns)
}

/// On a row of these: an agent stands behind the report that represents its retrievals, which so are claimed.
pub(super) const IS_CLAIM: &str = "all_role[1] IN (0, 1) AND are_agents[1]";

/// One row per shape with the number of its `retrievals`; over several shards one for each of these, as in all that follow.
pub(super) fn counted(owned: &Owned) -> String {
    let key = key(owned);
    meant(owned, &format!("SELECT {key}, count() AS retrievals FROM ({}) GROUP BY {key}", shaped(owned, [])))
}

/// The same, and of each report of the shape the sessions in `sets`, which may hold the one that is none.
pub(super) fn counted_with_sessions(owned: &Owned) -> String {
    let key = key(owned);
    let counted = format!(
        "SELECT {key}, count() AS retrievals, \
           arrayPushFront(uniqExactStateForEach(others_session), uniqExactState(session)) AS sets \
         FROM ({shaped}) GROUP BY {key}",
        shaped = shaped(owned, session_of_each()),
    );
    meant(owned, &counted)
}

/// One row per shape with pairs of a day and the number of its retrievals in `days`.
pub(super) fn counted_by_day(owned: &Owned) -> String {
    let key = key(owned);
    let counted = format!(
        "SELECT {key}, groupArray((day, of_day)) AS days FROM ( \
           SELECT {key}, toDate(at) AS day, count() AS of_day FROM ({shaped}) GROUP BY {key}, day) \
         GROUP BY {key}",
        shaped = shaped(owned, [super::retrievals::shown("at")]),
    );
    meant(owned, &counted)
}

/// What an owner is told of each shape: `event_type`, and of each of its reports, the representing one first, `all_role`, `all_org`,
/// `platforms`, `agents`, whether it has a session, and whether an agent stands behind it (`are_agents`), without which it names no agent
/// (docs/api/counting.md#figures).
fn meant(owned: &Owned, counted: &str) -> String {
    let counted = whole(owned, counted);
    // At any time, where the time decides nothing.
    let told =
        || format!(", arrayMap(report -> {}, reports) AS are_told", owned.may_tell("report.5", "toDateTime64(0, 3, 'UTC')"));
    let are_told = if owned.tells_by_time() { String::new() } else { told() };
    format!(
        "SELECT *, arrayMap(report -> report.1, reports) AS all_role, arrayMap(report -> report.2, reports) AS all_org, \
           arrayMap((report, is_told) -> if(is_told, report.3, report.2), reports, are_told) AS platforms, \
           arrayMap((report, is_told) -> if(is_told, report.4, ''), reports, are_told) AS agents, \
           arrayMap((report, is_told) -> is_told AND report.6 = 1, reports, are_told) AS have_session, \
           arrayMap((role, has_session) -> role = 1 OR has_session, all_role, have_session) AS are_agents \
         FROM (SELECT *, CAST(shape, {MEANING}) AS meaning, meaning.1 AS event_type, meaning.2 AS reports{are_told} FROM ({counted}))"
    )
}
