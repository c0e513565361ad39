//! How many attempts may run, in all and to one endpoint, so that receivers that hang take no room from others.
//!
//! Must give every room back, however an attempt ends.

use super::Pace;
use super::metrics;
use lru::LruCache;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// Endpoints remembered as hanging; one that is forgotten has to hang once more.
const MAX_HANGING: usize = 4_096;
/// Attempts at a time to an endpoint whose last one hung.
const OF_HANGING: usize = 1;

/// The lanes of one deliverer.
#[derive(Clone)]
pub(super) struct Lanes {
    at_once: usize,
    per_endpoint: usize,
    state: Arc<Mutex<State>>,
}

struct State {
    under_way: usize,
    by_endpoint: HashMap<Uuid, usize>,
    hanging: LruCache<Uuid, ()>,
}

/// How many attempts may begin now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) in_all: i64,
    pub(super) per_endpoint: i32,
    /// Endpoints for which it is less.
    pub(super) narrow: Vec<Narrow>,
}

/// An endpoint with less room: attempts are under way to it, or it has hung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Narrow {
    pub(super) endpoint: Uuid,
    pub(super) left: i32,
    pub(super) under_way: i32,
}

/// One attempt's place; free again when dropped.
pub(super) struct Lane {
    endpoint: Uuid,
    state: Arc<Mutex<State>>,
}

impl Lanes {
    pub(super) fn new(pace: &Pace) -> Self {
        let hanging = LruCache::new(NonZeroUsize::new(MAX_HANGING).expect("the constant is not zero"));
        let state = State { under_way: 0, by_endpoint: HashMap::new(), hanging };
        let (at_once, per_endpoint) = (pace.deliveries_at_once as usize, pace.deliveries_per_endpoint as usize);
        Self { at_once, per_endpoint, state: Arc::new(Mutex::new(state)) }
    }

    /// None when every lane is taken.
    pub(super) fn room(&self) -> Option<Room> {
        let state = lock(&self.state);
        let in_all = self.at_once.saturating_sub(state.under_way);
        if in_all == 0 {
            return None;
        }
        let busy = state.by_endpoint.keys();
        let hanging = state.hanging.iter().map(|(endpoint, ())| endpoint);
        let mut narrow: Vec<Narrow> = busy.chain(hanging).map(|endpoint| self.narrow(&state, *endpoint)).collect();
        narrow.sort_unstable();
        narrow.dedup();
        Some(Room { in_all: count(in_all), per_endpoint: count(self.per_endpoint), narrow })
    }

    fn narrow(&self, state: &State, endpoint: Uuid) -> Narrow {
        let most = if state.hanging.contains(&endpoint) { OF_HANGING.min(self.per_endpoint) } else { self.per_endpoint };
        let under_way = state.by_endpoint.get(&endpoint).copied().unwrap_or(0);
        Narrow { endpoint, left: count(most.saturating_sub(under_way)), under_way: count(under_way) }
    }

    pub(super) fn enter(&self, endpoint: Uuid) -> Lane {
        let mut state = lock(&self.state);
        state.under_way += 1;
        *state.by_endpoint.entry(endpoint).or_default() += 1;
        metrics::under_way(state.under_way);
        Lane { endpoint, state: Arc::clone(&self.state) }
    }
}

impl Lane {
    /// Says whether the attempt hung, which decides how many the endpoint may have at a time.
    pub(super) fn has_hung(&self, hung: bool) {
        let mut state = lock(&self.state);
        if hung {
            state.hanging.put(self.endpoint, ());
        } else {
            state.hanging.pop(&self.endpoint);
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        state.under_way -= 1;
        metrics::under_way(state.under_way);
        if let Some(count) = state.by_endpoint.get_mut(&self.endpoint) {
            *count -= 1;
            if *count == 0 {
                state.by_endpoint.remove(&self.endpoint);
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Every change is one step: what a panicking holder left is whole.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The settings bound every count far below what any of these types holds.
fn count<N: TryFrom<usize>>(number: usize) -> N {
    N::try_from(number).unwrap_or_else(|_| unreachable!("lanes are counted in thousands"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(at_once: u32, per_endpoint: u32) -> Lanes {
        Lanes::new(&Pace { deliveries_at_once: at_once, deliveries_per_endpoint: per_endpoint, ..Pace::default() })
    }

    fn narrow(endpoint: Uuid, left: i32, under_way: i32) -> Narrow {
        Narrow { endpoint, left, under_way }
    }

    #[test]
    fn an_endpoint_has_its_share_and_gives_it_back() {
        let (lanes, one) = (lanes(5, 2), Uuid::from_u128(1));
        assert_eq!(lanes.room(), Some(Room { in_all: 5, per_endpoint: 2, narrow: vec![] }));
        let (first, second) = (lanes.enter(one), lanes.enter(one));
        assert_eq!(lanes.room(), Some(Room { in_all: 3, per_endpoint: 2, narrow: vec![narrow(one, 0, 2)] }));
        drop(first);
        assert_eq!(lanes.room().unwrap().narrow, [narrow(one, 1, 1)]);
        drop(second);
        assert_eq!(lanes.room(), Some(Room { in_all: 5, per_endpoint: 2, narrow: vec![] }));
        let taken: Vec<Lane> = (10..15).map(|n| lanes.enter(Uuid::from_u128(n))).collect();
        assert_eq!(lanes.room(), None);
        drop(taken);
        assert!(lanes.room().is_some());
    }

    #[test]
    fn one_that_hangs_gets_one_at_a_time_until_it_answers() {
        let (lanes, one) = (lanes(5, 4), Uuid::from_u128(1));
        let lane = lanes.enter(one);
        lane.has_hung(true);
        assert_eq!(lanes.room().unwrap().narrow, [narrow(one, 0, 1)]);
        drop(lane);
        assert_eq!(lanes.room().unwrap().narrow, [narrow(one, 1, 0)], "remembered when none is under way");
        let lane = lanes.enter(one);
        lane.has_hung(false);
        assert_eq!(lanes.room().unwrap().narrow, [narrow(one, 3, 1)]);
    }
}
