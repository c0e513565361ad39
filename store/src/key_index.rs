//! Finds the row of each key in `events`.
//!
//! The writer builds the index from `events` after a takeover and uses it once it is complete: a key missing from the index has no row. The
//! index takes 16 bytes per key, and a quarter more for growth. It stores 64 bits of a keyed hash with a process secret, so clients can't
//! choose colliding keys. Keys that collide by chance are stored in full.

use crate::report::Home;
use schemas::event_key::EventKey;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Growing moves one shard's entries, which delays a report by a few milliseconds at most.
const SHARDS: usize = 256;
/// Number of fingerprint bits that choose the shard.
const SHARD_BITS: u32 = 8;
const MIN_SLOTS: usize = 16;
/// The earliest time in the tables: 1900-01-01 UTC in milliseconds.
const FIRST_MS: i64 = -2_208_988_800_000;
/// Number of time bits in a packed place, enough until the year 2457.
const TIME_BITS: u32 = 44;

/// Partition and time of an event's row, which identify it together with site and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPlace {
    pub home: Home,
    /// Time of the event in milliseconds UTC.
    pub at_ms: i64,
}

pub struct KeyIndex {
    secret: RandomState,
    shards: Vec<Shard>,
    homes: Vec<Home>,
    /// Keys that have the same fingerprint as another key.
    collided: HashMap<EventKey, KeyPlace>,
}

impl Default for KeyIndex {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Self { secret: RandomState::new(), shards, homes: Vec::new(), collided: HashMap::new() }
    }
}

impl KeyIndex {
    pub fn with_capacity(keys: usize) -> Self {
        // Shards differ by a few percent, and a fifth of the slots stays empty.
        let slots = keys / SHARDS * 21 / 16;
        let shards = (0..SHARDS).map(|_| Shard { slots: vec![Slot::default(); slots], used: 0 }).collect();
        Self { shards, ..Self::default() }
    }

    /// Returns the place of the key's row. If the place doesn't contain such a row, the key has none: retention dropped it, or another key
    /// has the same fingerprint.
    pub fn get(&self, key: EventKey) -> Option<KeyPlace> {
        if let Some(place) = self.collided.get(&key) {
            return Some(*place);
        }
        let fingerprint = self.fingerprint(key);
        self.shards[shard_of(fingerprint)].get(fingerprint).and_then(|packed| self.unpack(packed))
    }

    /// Adds a key without a row. Keeps an existing key with the same fingerprint.
    pub fn insert(&mut self, key: EventKey, place: KeyPlace) {
        let (fingerprint, packed) = (self.fingerprint(key), self.pack(place));
        let shard = &mut self.shards[shard_of(fingerprint)];
        match packed.filter(|_| shard.get(fingerprint).is_none()) {
            Some(packed) => shard.put(fingerprint, packed),
            None => drop(self.collided.insert(key, place)),
        }
    }

    /// Changes a key's place after its row was found at the place from [`get`](Self::get).
    pub fn update(&mut self, key: EventKey, place: KeyPlace) {
        if let Some(known) = self.collided.get_mut(&key) {
            *known = place;
            return;
        }
        let (fingerprint, packed) = (self.fingerprint(key), self.pack(place));
        let shard = &mut self.shards[shard_of(fingerprint)];
        match packed {
            Some(packed) => shard.put(fingerprint, packed),
            None => {
                shard.remove(fingerprint);
                self.collided.insert(key, place);
            }
        }
    }

    /// Removes a key after its row was found at the place from [`get`](Self::get).
    pub fn remove(&mut self, key: EventKey) {
        if self.collided.remove(&key).is_none() {
            let fingerprint = self.fingerprint(key);
            self.shards[shard_of(fingerprint)].remove(fingerprint);
        }
    }

    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.used).sum::<usize>() + self.collided.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.slots.capacity() * size_of::<Slot>()).sum()
    }

    fn fingerprint(&self, key: EventKey) -> u64 {
        // 0 marks an empty slot.
        self.secret.hash_one(key.0).max(1)
    }

    /// Returns `None` if the time or the number of homes is out of range. Such a place is stored in full.
    fn pack(&mut self, place: KeyPlace) -> Option<u64> {
        let time = u64::try_from(place.at_ms.checked_sub(FIRST_MS)?).ok().filter(|time| time >> TIME_BITS == 0)?;
        let known = self.homes.iter().position(|home| *home == place.home);
        let home = known.unwrap_or_else(|| {
            self.homes.push(place.home);
            self.homes.len() - 1
        });
        Some(u64::from(u16::try_from(home).ok()?) << TIME_BITS | time)
    }

    fn unpack(&self, packed: u64) -> Option<KeyPlace> {
        let home = *self.homes.get(usize::try_from(packed >> TIME_BITS).ok()?)?;
        let time = i64::try_from(packed & ((1 << TIME_BITS) - 1)).ok()?;
        Some(KeyPlace { home, at_ms: time + FIRST_MS })
    }
}

fn shard_of(fingerprint: u64) -> usize {
    usize::try_from(fingerprint >> (u64::BITS - SHARD_BITS)).unwrap_or(0)
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// 0 in an empty slot.
    fingerprint: u64,
    place: u64,
}

/// A hash table with linear probing.
#[derive(Default)]
struct Shard {
    slots: Vec<Slot>,
    used: usize,
}

impl Shard {
    fn get(&self, fingerprint: u64) -> Option<u64> {
        let slot = self.slots.get(self.find(fingerprint)?)?;
        (slot.fingerprint == fingerprint).then_some(slot.place)
    }

    fn put(&mut self, fingerprint: u64, place: u64) {
        // At most four fifths of the slots are in use.
        if (self.used + 1) * 5 > self.slots.len() * 4 {
            self.grow();
        }
        let Some(n) = self.find(fingerprint) else { return };
        self.used += usize::from(self.slots[n].fingerprint == 0);
        self.slots[n] = Slot { fingerprint, place };
    }

    fn remove(&mut self, fingerprint: u64) {
        let Some(mut gap) = self.find(fingerprint).filter(|n| self.slots[*n].fingerprint == fingerprint) else { return };
        self.used -= 1;
        self.slots[gap] = Slot::default();
        // Move entries that could no longer be found into the gap.
        let mut n = self.next(gap);
        while self.slots[n].fingerprint != 0 {
            let own = self.own_slot(self.slots[n].fingerprint);
            let is_between = if gap <= n { gap < own && own <= n } else { gap < own || own <= n };
            if !is_between {
                self.slots.swap(gap, n);
                gap = n;
            }
            n = self.next(n);
        }
    }

    /// Returns the slot with this fingerprint, or the free slot for it; `None` if the shard has no slots.
    fn find(&self, fingerprint: u64) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut n = self.own_slot(fingerprint);
        while self.slots[n].fingerprint != fingerprint && self.slots[n].fingerprint != 0 {
            n = self.next(n);
        }
        Some(n)
    }

    fn own_slot(&self, fingerprint: u64) -> usize {
        let within = u128::from(fingerprint << SHARD_BITS);
        usize::try_from((within * self.slots.len() as u128) >> u64::BITS).unwrap_or(0)
    }

    fn next(&self, n: usize) -> usize {
        if n + 1 == self.slots.len() { 0 } else { n + 1 }
    }

    fn grow(&mut self) {
        let slots = (self.slots.len() + self.slots.len() / 4).max(MIN_SLOTS);
        let former = std::mem::replace(&mut self.slots, vec![Slot::default(); slots]);
        for slot in former.into_iter().filter(|slot| slot.fingerprint != 0) {
            if let Some(n) = self.find(slot.fingerprint) {
                self.slots[n] = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn place(n: i64) -> KeyPlace {
        KeyPlace { home: Home(u32::try_from(n % 7).unwrap_or(0)), at_ms: n }
    }

    #[test]
    fn finds_only_inserted_keys() {
        let mut index = KeyIndex::default();
        (0..100_000).for_each(|n| index.insert(EventKey(n), place(n as i64)));
        assert_eq!(index.len(), 100_000);
        assert!((0..100_000).all(|n| index.get(EventKey(n)) == Some(place(n as i64))));
        assert!((100_000..200_000).all(|n| index.get(EventKey(n)).is_none()));
        assert!(index.bytes() < 100_000 * 32, "{}", index.bytes());
    }

    #[test]
    fn capacity_prevents_reallocation() {
        let mut index = KeyIndex::with_capacity(1_000_000);
        let bytes = index.bytes();
        (0..1_000_000).for_each(|n| index.insert(EventKey(n), place(n as i64)));
        assert!((0..1_000_000).all(|n| index.get(EventKey(n)) == Some(place(n as i64))));
        assert!(index.bytes() < bytes + bytes / 10 && bytes < 22_000_000, "{bytes} {}", index.bytes());
    }

    #[test]
    fn stores_out_of_range_places() {
        let mut index = KeyIndex::default();
        for (n, at_ms) in [i64::MIN, FIRST_MS - 1, FIRST_MS, 0, FIRST_MS + (1 << 44), i64::MAX].into_iter().enumerate() {
            let place = KeyPlace { home: Home(202_611), at_ms };
            index.insert(EventKey(n as u128), place);
            assert_eq!(index.get(EventKey(n as u128)), Some(place));
        }
    }

    #[test]
    fn stores_keys_with_equal_fingerprints() {
        let mut index = KeyIndex::default();
        index.insert(EventKey(1), place(1));
        // Give another key the fingerprint of key 2, so that only key 2's own entry distinguishes them.
        let fingerprint = index.fingerprint(EventKey(2));
        let packed = index.pack(place(3)).unwrap();
        index.shards[shard_of(fingerprint)].put(fingerprint, packed);
        index.insert(EventKey(2), place(2));
        assert_eq!(index.get(EventKey(2)), Some(place(2)));
        assert_eq!(index.shards[shard_of(fingerprint)].get(fingerprint), Some(packed));
        index.update(EventKey(2), place(4));
        assert_eq!(index.get(EventKey(2)), Some(place(4)));
        index.remove(EventKey(2));
        assert_eq!(index.shards[shard_of(fingerprint)].get(fingerprint), Some(packed));
    }

    proptest! {
        #[test]
        fn behaves_like_a_hash_map(changes in prop::collection::vec((0_u64..60, 0_u8..3, any::<u16>()), 0..400)) {
            // Use few fingerprints in one small shard, so that runs of entries wrap around its end.
            let (mut shard, mut map) = (Shard::default(), HashMap::new());
            for (n, change, place) in changes {
                let fingerprint = u64::MAX - n * (1 << 50);
                if change == 0 {
                    shard.remove(fingerprint);
                    map.remove(&fingerprint);
                } else {
                    shard.put(fingerprint, place.into());
                    map.insert(fingerprint, u64::from(place));
                }
                prop_assert_eq!(shard.used, map.len());
                prop_assert!((0..60).map(|n| u64::MAX - n * (1 << 50)).all(|of| shard.get(of) == map.get(&of).copied()));
            }
        }
    }
}
