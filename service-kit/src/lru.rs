//! Caches that forget what was used least recently.

use moka::policy::EvictionPolicy;
use moka::sync::{Cache, CacheBuilder};
use std::hash::Hash;

/// Begins a cache of so many entries, or of so much weight where entries are weighed.
pub(crate) fn lru<K, V>(capacity: usize) -> CacheBuilder<K, V, Cache<K, V>>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    Cache::builder().max_capacity(capacity as u64).eviction_policy(EvictionPolicy::lru())
}
