//! Caches with least-recently-used eviction.

use moka::policy::EvictionPolicy;
use moka::sync::{Cache, CacheBuilder};
use std::hash::Hash;

/// Builds a cache of `capacity` entries, or of that total weight if the builder gets a weigher.
pub(crate) fn lru<K, V>(capacity: usize) -> CacheBuilder<K, V, Cache<K, V>>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    Cache::builder().max_capacity(capacity as u64).eviction_policy(EvictionPolicy::lru())
}
