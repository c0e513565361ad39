//! Limits running attempts in total, per organization and per endpoint, so that hanging receivers don't delay others.

use super::ConcurrencySettings;
use lru::LruCache;
use schemas::ids::OrgId;
use service_kit::slots::{Pool, Slot, Slots};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// Maximum number of endpoints remembered as hanging. An endpoint that was forgotten is remembered again when it hangs again.
const MAX_HANGING: usize = 4_096;
/// Maximum running attempts to an endpoint after an attempt hung.
const OF_HANGING: usize = 1;

#[derive(Clone)]
pub(super) struct AttemptLimits {
    slots: Arc<Slots>,
    per_endpoint: usize,
    state: Arc<Mutex<State>>,
}

struct State {
    by_endpoint: HashMap<Uuid, usize>,
    hanging: LruCache<Uuid, ()>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    pub(super) in_all: i64,
    pub(super) per_endpoint: i32,
    pub(super) limited_endpoints: Vec<LimitedEndpoint>,
    /// Number of running attempts by organization.
    pub(super) busy: Vec<(Uuid, i32)>,
}

/// An endpoint with fewer lanes, because attempts are running or the last one hung.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LimitedEndpoint {
    pub(super) endpoint: Uuid,
    pub(super) remaining: i32,
}

/// An attempt's lane. Released on drop.
pub(super) struct AttemptPermit {
    endpoint: Uuid,
    state: Arc<Mutex<State>>,
    _slot: Slot,
}

impl AttemptLimits {
    pub(super) fn new(pace: &ConcurrencySettings) -> Self {
        let hanging = LruCache::new(NonZeroUsize::new(MAX_HANGING).expect("the constant is not zero"));
        let state = State { by_endpoint: HashMap::new(), hanging };
        let (at_once, per_endpoint) = (pace.deliveries_at_once as usize, pace.deliveries_per_endpoint as usize);
        Self { slots: Slots::new(Pool::Webhooks, at_once), per_endpoint, state: Arc::new(Mutex::new(state)) }
    }

    /// Returns how many attempts can start; `None` if every lane is taken.
    pub(super) fn capacity(&self) -> Option<Capacity> {
        let state = lock(&self.state);
        let in_all = self.slots.free();
        if in_all == 0 {
            return None;
        }
        let busy_endpoints = state.by_endpoint.keys();
        let hanging = state.hanging.iter().map(|(endpoint, ())| endpoint);
        let mut narrow: Vec<LimitedEndpoint> =
            busy_endpoints.chain(hanging).map(|endpoint| self.narrow(&state, *endpoint)).collect();
        narrow.sort_unstable();
        narrow.dedup();
        let busy = self.slots.by_key().into_iter().map(|(organization, attempts)| (organization.0, count(attempts))).collect();
        Some(Capacity { in_all: count(in_all), per_endpoint: count(self.per_endpoint), limited_endpoints: narrow, busy })
    }

    fn narrow(&self, state: &State, endpoint: Uuid) -> LimitedEndpoint {
        let most = if state.hanging.contains(&endpoint) { OF_HANGING.min(self.per_endpoint) } else { self.per_endpoint };
        let under_way = state.by_endpoint.get(&endpoint).copied().unwrap_or(0);
        LimitedEndpoint { endpoint, remaining: count(most.saturating_sub(under_way)) }
    }

    /// Takes a lane; `None` if the organization has used up its share.
    pub(super) fn acquire(&self, organization: OrgId, endpoint: Uuid) -> Option<AttemptPermit> {
        let slot = self.slots.take(organization, usize::MAX).ok()?;
        *lock(&self.state).by_endpoint.entry(endpoint).or_default() += 1;
        Some(AttemptPermit { endpoint, state: Arc::clone(&self.state), _slot: slot })
    }
}

impl AttemptPermit {
    /// Records whether the attempt hung, which limits its endpoint's running attempts.
    pub(super) fn has_hung(&self, hung: bool) {
        let mut state = lock(&self.state);
        if hung {
            state.hanging.put(self.endpoint, ());
        } else {
            state.hanging.pop(&self.endpoint);
        }
    }
}

impl Drop for AttemptPermit {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if let Some(count) = state.by_endpoint.get_mut(&self.endpoint) {
            *count -= 1;
            if *count == 0 {
                state.by_endpoint.remove(&self.endpoint);
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A panic can't interrupt a change to the state.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts a number. The settings keep all counts far below the range of these types.
fn count<N: TryFrom<usize>>(number: usize) -> N {
    N::try_from(number).unwrap_or_else(|_| unreachable!("the settings limit lanes to thousands"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORG: OrgId = OrgId(Uuid::from_u128(7));

    fn lanes(at_once: u32, per_endpoint: u32) -> AttemptLimits {
        AttemptLimits::new(&ConcurrencySettings {
            deliveries_at_once: at_once,
            deliveries_per_endpoint: per_endpoint,
            ..ConcurrencySettings::default()
        })
    }

    fn room(in_all: i64, narrow: &[(Uuid, i32)], busy: &[i32]) -> Capacity {
        let narrow = narrow.iter().map(|(endpoint, left)| LimitedEndpoint { endpoint: *endpoint, remaining: *left }).collect();
        Capacity {
            in_all,
            per_endpoint: 2,
            limited_endpoints: narrow,
            busy: busy.iter().map(|attempts| (ORG.0, *attempts)).collect(),
        }
    }

    #[test]
    fn finished_attempts_release_their_lanes() {
        let (lanes, one) = (lanes(5, 2), Uuid::from_u128(1));
        assert_eq!(lanes.capacity(), Some(room(5, &[], &[])));
        let (first, second) = (lanes.acquire(ORG, one), lanes.acquire(ORG, one));
        assert_eq!(lanes.capacity(), Some(room(3, &[(one, 0)], &[2])));
        drop(first);
        assert_eq!(lanes.capacity(), Some(room(4, &[(one, 1)], &[1])));
        drop(second);
        assert_eq!(lanes.capacity(), Some(room(5, &[], &[])));
        let taken: Vec<AttemptPermit> =
            (10..15).filter_map(|n| lanes.acquire(OrgId(Uuid::from_u128(n)), Uuid::from_u128(n))).collect();
        assert_eq!((taken.len(), lanes.capacity()), (5, None));
        drop(taken);
        assert!(lanes.capacity().is_some());
    }

    #[test]
    fn organizations_use_at_most_half_of_the_lanes() {
        let lanes = lanes(8, 2);
        let taken: Vec<AttemptPermit> = (1..9).filter_map(|endpoint| lanes.acquire(ORG, Uuid::from_u128(endpoint))).collect();
        assert_eq!(taken.len(), 4);
        assert!(lanes.acquire(OrgId(Uuid::from_u128(8)), Uuid::from_u128(9)).is_some());
    }

    #[test]
    fn hanging_endpoints_get_only_one_lane() {
        let (lanes, one) = (lanes(5, 4), Uuid::from_u128(1));
        let left = || lanes.capacity().unwrap().limited_endpoints.first().map(|narrow| (narrow.endpoint, narrow.remaining));
        let lane = lanes.acquire(ORG, one).unwrap();
        lane.has_hung(true);
        assert_eq!(left(), Some((one, 0)));
        drop(lane);
        assert_eq!(left(), Some((one, 1)), "remembered without a running attempt");
        let lane = lanes.acquire(ORG, one).unwrap();
        lane.has_hung(false);
        assert_eq!(left(), Some((one, 3)));
    }
}
