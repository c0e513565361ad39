//! The order of a list of events, newest first, ties by id: what of the events that may be on a page is on it, and the page of these.
//!
//! Must not decide which events there are, nor what is told of one. Must ask for no id where times alone decide.

use super::Telemetry;
use super::rows::{EventRow, FoundPage};
use crate::parameters::cursor::{Cursor, Position};
use crate::parameters::paging::Paging;
use clickhouse::query::Query;
use service_kit::http::ApiError;
use std::cmp::Reverse;
use std::collections::HashMap;

/// An event that may be on the page, by its time.
pub(super) trait Candidate {
    fn event_key(&self) -> u128;
    fn at_ms(&self) -> i64;
    /// How many events of the list are newer.
    fn newer(&self) -> u64;
}

/// What is on a page, in the order of the list.
pub(super) struct OnPage<C> {
    pub(super) events: Vec<C>,
    /// Whether it has as many as it may have, so that another page may follow.
    is_full: bool,
}

/// What [`EventRow`] says of all that a statement tells, which orders it by `place`: how many events, and in the first row the id of the last.
pub(super) const OF_ALL_TOLD: &str = "count() OVER () AS total, if(place = 1, argMax(id, place) OVER (), '') AS last_id";

/// Those whose order their times do not decide: of one time with others, or with the last of the page before. That one itself is none.
pub(super) fn undecided<'a, C: Candidate>(candidates: &'a [C], walk: &Cursor) -> Vec<&'a C> {
    let mut of_time: HashMap<i64, usize> = HashMap::new();
    candidates.iter().for_each(|candidate| *of_time.entry(candidate.at_ms()).or_default() += 1);
    if let Some(last) = &walk.after {
        of_time.insert(last.at_ms, usize::MAX);
    }
    let is_undecided = |candidate: &&C| of_time[&candidate.at_ms()] > 1 && !is_last(*candidate, walk);
    candidates.iter().filter(is_undecided).collect()
}

/// Whether it is the one that the page before ended with.
fn is_last<C: Candidate>(candidate: &C, walk: &Cursor) -> bool {
    walk.after.as_ref().is_some_and(|last| last.at_ms == candidate.at_ms() && last.key == candidate.event_key())
}

/// What of these is on the page, with the ids of those that are [`undecided`]; who of them has none was not found again.
pub(super) fn on_page<C: Candidate>(
    candidates: Vec<C>,
    ids: &HashMap<u128, String>,
    (at, walk): (Paging, &Cursor),
) -> Result<OnPage<C>, ApiError> {
    let is_found = undecided(&candidates, walk).iter().all(|candidate| ids.contains_key(&candidate.event_key()));
    if !is_found {
        return Err(missing());
    }
    let id = |candidate: &C| ids.get(&candidate.event_key()).map_or("", String::as_str);
    let order = |candidate: &C| (Reverse(candidate.at_ms()), id(candidate), candidate.event_key());
    let mut events = candidates;
    events.sort_by(|one, other| order(one).cmp(&order(other)));
    match &walk.after {
        Some(last) => {
            let end = (Reverse(last.at_ms), last.id.as_str(), last.key);
            events.retain(|event| !is_last(event, walk) && order(event) > end);
        }
        None => events = events.split_off(skipped(&events, at)),
    }
    events.truncate(usize::try_from(at.limit).unwrap_or(usize::MAX));
    let is_full = events.len() as u64 == at.limit;
    Ok(OnPage { events, is_full })
}

/// How many of those of the time at which the page begins are before it.
fn skipped<C: Candidate>(ordered: &[C], at: Paging) -> usize {
    let newer = ordered.first().map_or(at.offset, Candidate::newer);
    usize::try_from(at.offset.saturating_sub(newer)).unwrap_or(usize::MAX).min(ordered.len())
}

fn missing() -> ApiError {
    ApiError::unavailable(anyhow::anyhow!("an observation that was named before is not there"))
}

impl Telemetry {
    /// The page of a list of `total` events, of which `told` tells those that are on it; none where one of them is not found again.
    pub(super) async fn page_of_events<C: Candidate>(
        &self,
        (total, walk): (u64, &Cursor),
        page: &OnPage<C>,
        told: Query,
    ) -> Result<FoundPage<EventRow>, ApiError> {
        let (first, rest) = self.started::<EventRow>(told).await?;
        let first = first.filter(|first| first.total == page.events.len() as u64).ok_or_else(missing)?;
        let last = page.events.last().filter(|_| page.is_full);
        let next = last.map(|last| {
            let id = first.last_id.clone();
            walk.next(&Position { at_ms: last.at_ms(), id, key: last.event_key() })
        });
        Ok(FoundPage { total, next, first: Some(first), rest: Some(rest) })
    }
}
