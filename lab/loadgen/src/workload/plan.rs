//! Generates requests: new events, repeats of earlier ones, and other observers' reports of the same fetches in random order.

use super::{AGENT, Shape, Skew};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// Maximum number of pending reports by other observers. Above it, they are sent first.
const MAX_WAITING: usize = 256;
/// Half of the repeats are among this many most recent events, some of which are still in flight.
const RECENT: u32 = 64;

#[derive(Clone, Copy, Debug)]
pub struct Mix {
    pub batch: usize,
    /// Number of roles that report each fetch, 1 to 4.
    pub observers: usize,
    /// Percentage of events that repeat an earlier one.
    pub duplicate_percent: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Tenant that the events are about.
    pub tenant: usize,
    /// Index of the reporter in [`super::ROLES`].
    pub role: usize,
    pub items: Vec<u32>,
}

#[derive(Debug)]
pub struct Generator {
    shape: Shape,
    mix: Mix,
    skew: Skew,
    random: SmallRng,
    next: Vec<u32>,
    waiting: Vec<Plan>,
}

impl Generator {
    pub fn new(shape: Shape, mix: Mix, tenants: usize, skew: Skew) -> Self {
        let random = SmallRng::seed_from_u64(shape.seed);
        Self { shape, mix, skew, random, next: vec![0; tenants], waiting: Vec::new() }
    }

    pub fn set_mix(&mut self, mix: Mix) {
        self.mix = mix;
    }

    pub fn next_plan(&mut self) -> Plan {
        let observers = u32::try_from(self.mix.observers.max(1)).unwrap_or(1);
        let is_their_turn = self.waiting.len() >= MAX_WAITING || self.random.random_ratio(observers - 1, observers);
        if is_their_turn && !self.waiting.is_empty() {
            let place = self.random.random_range(0..self.waiting.len());
            return self.waiting.swap_remove(place);
        }
        let tenant = self.skew.pick(self.random.random());
        let items: Vec<u32> = (0..self.mix.batch).map(|_| self.item(tenant)).collect();
        self.queue_other_observers(tenant, &items);
        Plan { tenant, role: AGENT, items }
    }

    fn item(&mut self, tenant: usize) -> u32 {
        let next = self.next[tenant];
        if next > 0 && self.is_repeat() {
            let from = if self.random.random() { next.saturating_sub(RECENT) } else { 0 };
            return self.random.random_range(from..next);
        }
        self.next[tenant] = next + 1;
        next
    }

    fn queue_other_observers(&mut self, tenant: usize, items: &[u32]) {
        if self.mix.observers < 2 {
            return;
        }
        let seen: Vec<u32> = items.iter().copied().filter(|number| self.shape.is_retrieval(tenant, *number)).collect();
        if seen.is_empty() {
            return;
        }
        for role in 1..self.mix.observers {
            let plan = Plan { tenant, role, items: seen.clone() };
            if self.is_repeat() {
                self.waiting.push(plan.clone());
            }
            self.waiting.push(plan);
        }
    }

    fn is_repeat(&mut self) -> bool {
        let percent = self.mix.duplicate_percent;
        percent > 0 && self.random.random_range(0..100) < percent
    }
}
