//! The order of a list of events, newest first, ties by id: what of the events that may be on a page is on it.
//!
//! Must not decide which events there are, nor what is told of one.

use crate::parameters::cursor::{Cursor, Position};
use crate::parameters::paging::Paging;
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

/// In the order of the list, with the id of each. Who has none here was not found again.
pub(super) fn in_order<C: Candidate>(candidates: Vec<C>, mut ids: HashMap<u128, String>) -> Result<Vec<(Position, C)>, ApiError> {
    let placed = candidates.into_iter().map(|candidate| {
        let key = candidate.event_key();
        let id = ids.remove(&key);
        let id = id.ok_or_else(|| ApiError::unavailable(anyhow::anyhow!("an observation that was named before is not there")))?;
        Ok::<_, ApiError>((Position { at_ms: candidate.at_ms(), id, key }, candidate))
    });
    let mut ordered = placed.collect::<Result<Vec<_>, _>>()?;
    ordered.sort_by(|(one, _), (other, _)| order(one).cmp(&order(other)));
    Ok(ordered)
}

/// What of them is on the page, and where the next one begins: after a page that is full.
pub(super) fn on_page<C: Candidate>(mut ordered: Vec<(Position, C)>, (at, walk): (Paging, &Cursor)) -> (Vec<C>, Option<String>) {
    match &walk.after {
        Some(last) => ordered.retain(|(place, _)| order(place) > order(last)),
        None => ordered = ordered.split_off(skipped(&ordered, at)),
    }
    ordered.truncate(usize::try_from(at.limit).unwrap_or(usize::MAX));
    let is_full = ordered.len() as u64 == at.limit;
    let next = ordered.last().filter(|_| is_full).map(|(last, _)| walk.next(last));
    (ordered.into_iter().map(|(_, candidate)| candidate).collect(), next)
}

fn order(place: &Position) -> (Reverse<i64>, &str, u128) {
    (Reverse(place.at_ms), &place.id, place.key)
}

/// How many of those of the time at which the page begins are before it.
fn skipped<C: Candidate>(ordered: &[(Position, C)], at: Paging) -> usize {
    let newer = ordered.first().map_or(at.offset, |(_, first)| first.newer());
    usize::try_from(at.offset.saturating_sub(newer)).unwrap_or(usize::MAX).min(ordered.len())
}
