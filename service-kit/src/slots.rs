//! Slots shared by tenants: no tenant may take more than it leaves for all others (docs/api/http.md#shares).
//!
//! A tenant that takes all it can gets half of the slots, the next one a quarter, and so on. Dropping a slot releases it. For work that
//! takes milliseconds, a tenant may take all slots until another one waits ([`Slots::for_short_work`]).

use crate::metric_definitions::common;
use schemas::ids::OrgId;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// What the slots are used for; a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    Reads,
    ReadQuestions,
    Drains,
    Webhooks,
    SignInMails,
    /// Documents fetched to verify domains.
    DomainChecks,
    LargeBodies,
    Writes,
    SessionChanges,
    /// Identity requests with API keys.
    IdentityRequests,
    IdentitySessions,
    /// Request bodies, in KiB.
    Bodies,
    /// Responses of reads that have released their slot, in KiB.
    Responses,
    /// Months being closed.
    Statements,
    /// Comparisons with robots.txt.
    Robots,
    /// Key sets of agents being fetched.
    KeySets,
    /// Nonces of signed reports being stored.
    Nonces,
    /// Statements being converted to CSV and XLSX.
    StatementFiles,
}

impl Pool {
    fn label(self) -> &'static str {
        common::POOLS[self as usize]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSlot {
    OwnShare,
    AllTaken,
}

impl NoSlot {
    fn limit(self) -> &'static str {
        match self {
            Self::OwnShare => common::SHARE,
            Self::AllTaken => common::PROCESS,
        }
    }
}

/// One pool's slots, shared by values of `K`: organizations, or client addresses before authentication.
#[derive(Debug)]
pub struct Slots<K: Copy + Eq + Hash = OrgId> {
    /// `None` for a pool without metrics.
    pool: Option<Pool>,
    size: usize,
    /// Whether a tenant must leave as many slots as it takes.
    has_reserve: bool,
    state: Mutex<State<K>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<K> {
    taken: usize,
    by_key: HashMap<K, usize>,
    /// Numbers of the waiters in [`Slots::wait`] by tenant, in order of arrival.
    waiting: HashMap<K, BTreeSet<u64>>,
    next_waiter: u64,
}

/// One or more taken slots. Released on drop.
#[derive(Debug)]
pub struct Slot<K: Copy + Eq + Hash = OrgId> {
    slots: Arc<Slots<K>>,
    key: K,
    count: usize,
}

impl<K: Copy + Eq + Hash> Slots<K> {
    pub fn new(pool: Pool, size: usize) -> Arc<Self> {
        Self::create(Some(pool), size, true)
    }

    /// Creates a pool of `size` slots, at least two, in which a tenant may take all slots while no other tenant waits. A waiting tenant
    /// gets the next free slot.
    pub fn for_short_work(pool: Pool, size: usize) -> Arc<Self> {
        Self::create(Some(pool), size.max(2), false)
    }

    /// Creates a pool without a total limit and without metrics. Each [`Slots::take`] sets the tenant's limit.
    pub fn unlimited() -> Arc<Self> {
        Self::create(None, usize::MAX, false)
    }

    fn create(pool: Option<Pool>, size: usize, has_reserve: bool) -> Arc<Self> {
        let state = Mutex::new(State { taken: 0, by_key: HashMap::new(), waiting: HashMap::new(), next_waiter: 0 });
        let slots = Self { pool, size, has_reserve, state, changed: Notify::new() };
        slots.show(0);
        Arc::new(slots)
    }

    /// Takes a slot for a tenant that may have up to `most` of them.
    pub fn take(self: &Arc<Self>, key: K, most: usize) -> Result<Slot<K>, NoSlot> {
        self.take_from(&mut self.lock(), key, most).inspect_err(|why| self.note(why.limit()))
    }

    /// Takes a slot, waiting for up to `patience`. The next slot goes to the waiting tenant with the fewest slots; among several, to the
    /// one that has waited longest.
    pub async fn wait(self: &Arc<Self>, key: K, patience: Duration) -> Result<Slot<K>, NoSlot> {
        let until = Instant::now() + patience;
        let waiter = Waiter::enter(self, key);
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let why = match self.take_in_turn(&waiter) {
                Ok(slot) => return Ok(slot),
                Err(why) => why,
            };
            if timeout_at(until, changed).await.is_err() {
                self.note(why.limit());
                return Err(why);
            }
        }
    }

    /// Counts a rejection in the metrics, because one credential reached its limit.
    pub fn note_credential_limit(&self) {
        self.note(common::CREDENTIAL);
    }

    pub fn free(&self) -> usize {
        self.size.saturating_sub(self.lock().taken)
    }

    /// Returns the number of a tenant's slots.
    pub fn taken_by(&self, key: K) -> usize {
        self.lock().taken_by(key)
    }

    /// Returns the tenants that have slots, with their number.
    pub fn by_key(&self) -> Vec<(K, usize)> {
        self.lock().by_key.iter().map(|(key, taken)| (*key, *taken)).collect()
    }

    fn note(&self, limit: &'static str) {
        if let Some(pool) = self.pool {
            common::no_slot(pool.label(), limit);
        }
    }

    fn show(&self, taken: usize) {
        if let Some(pool) = self.pool {
            common::slots_taken(pool.label(), taken);
        }
    }

    fn take_in_turn(self: &Arc<Self>, waiter: &Waiter<'_, K>) -> Result<Slot<K>, NoSlot> {
        let mut state = self.lock();
        let own = state.taken_by(waiter.key);
        let first = |(key, numbers): (&K, &BTreeSet<u64>)| Some((state.taken_by(*key), *numbers.first()?));
        let next = state.waiting.iter().filter_map(first).min();
        if next.is_some_and(|(fewest, _)| fewest < own) {
            return Err(NoSlot::OwnShare);
        }
        self.check(&state, own, 1)?;
        if next.is_some_and(|(_, number)| number != waiter.number) {
            return Err(NoSlot::AllTaken);
        }
        self.take_from(&mut state, waiter.key, usize::MAX)
    }

    fn take_from(self: &Arc<Self>, state: &mut State<K>, key: K, most: usize) -> Result<Slot<K>, NoSlot> {
        if state.taken_by(key) >= most {
            return Err(NoSlot::OwnShare);
        }
        self.add(state, key, 1)?;
        Ok(Slot { slots: Arc::clone(self), key, count: 1 })
    }

    fn add(&self, state: &mut State<K>, key: K, count: usize) -> Result<(), NoSlot> {
        let own = state.taken_by(key);
        self.check(state, own, count)?;
        state.taken += count;
        state.by_key.insert(key, own + count);
        self.show(state.taken);
        Ok(())
    }

    /// Checks whether a tenant with `own` slots may take `count` more.
    fn check(&self, state: &State<K>, own: usize, count: usize) -> Result<(), NoSlot> {
        let free = self.size.saturating_sub(state.taken);
        if count > free {
            return Err(NoSlot::AllTaken);
        }
        if self.has_reserve && own + count > free - count + 1 {
            return Err(NoSlot::OwnShare);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        // Every change is complete before a panic could occur.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy + Eq + Hash> State<K> {
    fn taken_by(&self, key: K) -> usize {
        self.by_key.get(&key).copied().unwrap_or(0)
    }
}

impl<K: Copy + Eq + Hash> Slot<K> {
    pub fn key(&self) -> K {
        self.key
    }

    /// Takes more slots for the same tenant, up to `count` in total. On an error, the number is unchanged.
    pub fn grow_to(&mut self, count: usize) -> Result<(), NoSlot> {
        let Some(more) = count.checked_sub(self.count).filter(|more| *more > 0) else { return Ok(()) };
        self.slots.add(&mut self.slots.lock(), self.key, more).inspect_err(|why| self.slots.note(why.limit()))?;
        self.count = count;
        Ok(())
    }
}

impl<K: Copy + Eq + Hash> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state.taken -= self.count;
        match state.by_key.get_mut(&self.key) {
            Some(taken) if *taken > self.count => *taken -= self.count,
            _ => drop(state.by_key.remove(&self.key)),
        }
        self.slots.show(state.taken);
        drop(state);
        self.slots.changed.notify_waiters();
    }
}

struct Waiter<'a, K: Copy + Eq + Hash> {
    slots: &'a Slots<K>,
    key: K,
    number: u64,
}

impl<'a, K: Copy + Eq + Hash> Waiter<'a, K> {
    fn enter(slots: &'a Slots<K>, key: K) -> Self {
        let mut state = slots.lock();
        let number = state.next_waiter;
        state.next_waiter += 1;
        state.waiting.entry(key).or_default().insert(number);
        Self { slots, key, number }
    }
}

impl<K: Copy + Eq + Hash> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        if let Entry::Occupied(mut numbers) = state.waiting.entry(self.key) {
            numbers.get_mut().remove(&self.number);
            if numbers.get().is_empty() {
                numbers.remove();
            }
        }
        drop(state);
        // Waiters that let this one go first may now be able to take a slot.
        self.slots.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    /// Takes all slots that a tenant can get.
    fn take_all(slots: &Arc<Slots<u32>>, key: u32) -> Vec<Slot<u32>> {
        (0..1_000).map_while(|_| slots.take(key, usize::MAX).ok()).collect()
    }

    #[test]
    fn tenants_leave_as_many_slots_as_they_use() {
        let slots = Slots::new(Pool::Reads, 96);
        let mut taken: Vec<_> = (1..=8).map(|key| take_all(&slots, key)).collect();
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [48, 24, 12, 6, 3, 2, 1, 0]);
        assert_eq!((slots.free(), slots.by_key().len()), (0, 7));
        assert_eq!(slots.take(8, usize::MAX).unwrap_err(), NoSlot::AllTaken);
        taken[1].clear();
        assert_eq!(slots.take(1, usize::MAX).unwrap_err(), NoSlot::OwnShare);
        assert_eq!(take_all(&slots, 8).len(), 12, "freed slots are shared again");
    }

    #[test]
    fn respects_the_tenants_own_limit() {
        let slots = Slots::new(Pool::Reads, 96);
        let first: Vec<_> = (0..10).filter_map(|_| slots.take(1, 3).ok()).collect();
        assert_eq!(first.len(), 3);
        assert_eq!(slots.take(1, 3).unwrap_err(), NoSlot::OwnShare);
        assert!(slots.take(2, 3).is_ok());
        drop(first);
        assert_eq!((slots.free(), slots.by_key().len()), (96, 0), "tenants without slots leave no entry");
    }

    #[test]
    fn growth_must_leave_as_many_slots_free_as_it_uses() {
        let slots = Slots::new(Pool::Bodies, 100);
        let (mut first, mut second) = (slots.take(1, usize::MAX).unwrap(), slots.take(2, usize::MAX).unwrap());
        assert_eq!((first.grow_to(49), first.grow_to(51), first.grow_to(10)), (Ok(()), Err(NoSlot::OwnShare), Ok(())));
        assert_eq!((second.grow_to(27), second.grow_to(26)), (Err(NoSlot::OwnShare), Ok(())));
        assert_eq!((second.grow_to(60), slots.free()), (Err(NoSlot::AllTaken), 25));
        drop(first);
        assert_eq!((second.grow_to(50), slots.free()), (Ok(()), 50));
        drop(second);
        assert_eq!((slots.free(), slots.by_key().len()), (100, 0));
    }

    #[test]
    fn empty_pool_has_no_slots() {
        assert_eq!(Slots::new(Pool::Reads, 0).take(1, usize::MAX).unwrap_err(), NoSlot::AllTaken);
    }

    #[tokio::test]
    async fn next_slot_goes_to_the_waiting_tenant_with_fewest() {
        let slots = Slots::new(Pool::Reads, 4);
        let (mut busy, other) = (take_all(&slots, 1), [take_all(&slots, 2), take_all(&slots, 3)]);
        assert_eq!((busy.len(), slots.free()), (2, 0));
        let wait = |key: u32| {
            let slots = Arc::clone(&slots);
            async move { slots.wait(key, Duration::from_secs(60)).await.map(|slot| slot.key()) }
        };
        let mut waiting: Vec<_> = (0..20).map(|_| tokio::spawn(wait(1))).collect();
        tokio::task::yield_now().await;
        let newcomer = tokio::spawn(wait(4));
        tokio::task::yield_now().await;
        busy.pop();
        assert_eq!(newcomer.await.unwrap(), Ok(4));
        drop((busy, other));
        for waiter in waiting.drain(..) {
            assert_eq!(waiter.await.unwrap(), Ok(1));
        }
        assert_eq!(slots.free(), 4);
        assert!(slots.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn f53_short_work_can_use_all_slots_until_another_waits() {
        let slots = Slots::for_short_work(Pool::LargeBodies, 4);
        let mut busy = take_all(&slots, 1);
        assert_eq!(busy.len(), 4);
        let wait = |key: u32| {
            let slots = Arc::clone(&slots);
            tokio::spawn(async move { slots.wait(key, Duration::from_secs(60)).await.map(|slot| slot.key()) })
        };
        let waiting: Vec<_> = (0..20).map(|_| wait(1)).collect();
        tokio::task::yield_now().await;
        let newcomer = wait(2);
        tokio::task::yield_now().await;
        busy.pop();
        assert_eq!(newcomer.await.unwrap(), Ok(2), "the newcomer is served before twenty older waiters");
        drop(busy);
        for waiter in waiting {
            assert_eq!(waiter.await.unwrap(), Ok(1));
        }
    }

    #[tokio::test]
    async fn tenants_with_equal_shares_are_served_in_order() {
        let slots = Slots::for_short_work(Pool::LargeBodies, 4);
        let mut busy = take_all(&slots, 1);
        let mut waiting = [2, 3, 2, 4].map(|key| Box::pin(slots.wait(key, Duration::from_secs(60))));
        assert!(waiting.iter_mut().all(|waiter| waiter.now_or_never().is_none()));
        let mut served = Vec::new();
        for next in [0, 1, 3, 2] {
            busy.pop();
            // Later waiters try first, and so does a newcomer with the same number of slots.
            let newcomer = slots.wait(if next == 2 { 2 } else { 5 }, Duration::from_secs(60)).now_or_never();
            assert!(newcomer.is_none(), "a newcomer is before {next}");
            for nth in [3, 2, 1, 0] {
                let slot = if served.iter().any(|(done, _)| *done == nth) { None } else { (&mut waiting[nth]).now_or_never() };
                assert_eq!(slot.is_some(), nth == next, "{nth} instead of {next}");
                served.extend(slot.map(|slot| (nth, slot)));
            }
        }
    }

    #[tokio::test]
    async fn waiting_times_out() {
        let slots = Slots::new(Pool::Reads, 1);
        let _taken = slots.take(1, usize::MAX).unwrap();
        assert_eq!(slots.wait(2, Duration::from_millis(20)).await.unwrap_err(), NoSlot::AllTaken);
        assert!(slots.lock().waiting.is_empty());
    }
}
