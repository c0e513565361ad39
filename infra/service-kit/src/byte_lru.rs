//! An LRU cache that is bounded by bytes: what is remembered may be long.

use lru::LruCache;
use std::hash::Hash;

/// As many entries as a budget of memory holds.
pub struct ByteLru<K: Hash + Eq, V> {
    entries: LruCache<K, V>,
    bytes: usize,
    budget: usize,
    size: fn(&V) -> usize,
}

impl<K: Hash + Eq, V> ByteLru<K, V> {
    /// An empty one of so many bytes, of which an entry takes what `size` says.
    pub fn new(budget: usize, size: fn(&V) -> usize) -> Self {
        Self { entries: LruCache::unbounded(), bytes: 0, budget, size }
    }

    /// Takes one in; those that were used least recently give way.
    pub fn put(&mut self, key: K, value: V) {
        self.bytes += (self.size)(&value);
        if let Some(before) = self.entries.put(key, value) {
            self.bytes -= (self.size)(&before);
        }
        while self.bytes > self.budget
            && let Some((_, oldest)) = self.entries.pop_lru()
        {
            self.bytes -= (self.size)(&oldest);
        }
    }

    /// Takes one out.
    pub fn pop(&mut self, key: &K) -> Option<V> {
        let value = self.entries.pop(key)?;
        self.bytes -= (self.size)(&value);
        Some(value)
    }

    /// One, which is used by that.
    pub fn get(&mut self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    /// One, which is not used by that.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.entries.peek(key)
    }

    /// All, from the one that was used least recently.
    pub fn oldest_first(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().rev()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
